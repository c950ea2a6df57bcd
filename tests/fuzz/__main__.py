"""Feed every decoder damaged input: `make fuzz SECONDS=60 SEED=7 TARGETS=rows,file`.

Every answer must be a value or an error of our tree, soon, and in little memory. An input that gets
another one is saved, and from then on replayed by `tests/unit/fuzz`.
"""

from __future__ import annotations

import os
import secrets
import signal
import sys
import time

from tests.fuzz.capture_targets import CAPTURE_TARGETS
from tests.fuzz.log_targets import LOG_TARGETS
from tests.fuzz.targets import EVENT_TARGETS, Target
from tests.fuzz.worker import SECONDS_MAX, Board, save, work

TARGETS: tuple[Target, ...] = (*EVENT_TARGETS, *LOG_TARGETS, *CAPTURE_TARGETS)

_LOOK_SECONDS = 0.5


def main() -> int:
    """Run for `SECONDS`; return 1 if a bug was found."""
    seconds = float(os.environ.get("SECONDS", "60"))
    seed = int(os.environ.get("SEED") or secrets.randbelow(1 << 32))
    wanted = set(filter(None, os.environ.get("TARGETS", "").split(",")))
    targets = [each for each in TARGETS if not wanted or each.name in wanted]
    if not targets:
        print(f"no such targets; there are {', '.join(each.name for each in TARGETS)}")
        return 2
    board = Board(len(targets))
    deadline = time.monotonic() + seconds
    failed = False
    began = time.monotonic()
    run = 0
    while run == 0 or time.monotonic() < deadline:
        failed |= supervise(targets, seed + run, deadline, board)
        run += 1
    took = time.monotonic() - began
    for target, count in zip(targets, board.counts, strict=True):
        print(f"{target.name:20} {count:10,}")
    total = sum(board.counts)
    print(f"{'executions':20} {total:10,}  in {took:.0f} s; seed {seed}; bugs: {failed or 'none'}")
    return int(failed)


def supervise(targets: list[Target], seed: int, deadline: float, board: Board) -> bool:
    """Run a worker to its end, whatever that is; return whether it found a bug."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = int(work(targets, seed, deadline, board) > 0)
        finally:
            sys.stdout.flush()
            os._exit(code)
    number, since = board.number, time.monotonic()
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            break
        if board.number != number:
            number, since = board.number, time.monotonic()
        elif time.monotonic() - since > 3 * SECONDS_MAX:
            # Neither the alarm nor anything else got through to it.
            os.kill(pid, signal.SIGKILL)
        time.sleep(_LOOK_SECONDS)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status) == 2:
            print("the worker itself failed")
        return os.WEXITSTATUS(status) != 0
    index, data = board.input
    path = save(targets[index], data)
    what = signal.Signals(os.WTERMSIG(status)).name
    print(f"\n{targets[index].name}: the process ended by {what}\n  saved as {path}", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main())
