"""Feed every decoder damaged input: `make fuzz SECONDS=60 SEED=7 TARGETS=rows,file`.

Every answer must be a value or an error of our tree, soon, and in little memory. An input that gets
another one is saved, and from then on replayed by `tests/unit/fuzz`.
"""

from __future__ import annotations

import argparse
import os
import secrets
import signal
import sys
import time
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

from tests.fuzz.capture_targets import CAPTURE_TARGETS
from tests.fuzz.completion_targets import COMPLETION_TARGETS
from tests.fuzz.content_targets import CONTENT_TARGETS
from tests.fuzz.ddl_targets import DDL_TARGETS
from tests.fuzz.expansion_targets import EXPANSION_TARGETS
from tests.fuzz.json_targets import JSON_TARGETS
from tests.fuzz.log_targets import LOG_TARGETS
from tests.fuzz.result_targets import RESULT_TARGETS
from tests.fuzz.server_targets import SERVER_TARGETS
from tests.fuzz.stored_targets import STORED_TARGETS
from tests.fuzz.targets import EVENT_TARGETS, Target
from tests.fuzz.worker import SECONDS_MAX, Board, replay, save, work

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

TARGETS: tuple[Target, ...] = (
    *EVENT_TARGETS,
    *LOG_TARGETS,
    *COMPLETION_TARGETS,
    *CONTENT_TARGETS,
    *DDL_TARGETS,
    *CAPTURE_TARGETS,
    *EXPANSION_TARGETS,
    *JSON_TARGETS,
    *SERVER_TARGETS,
    *RESULT_TARGETS,
    *STORED_TARGETS,
)

_POLL_SECONDS = 0.5
_STUCK_SECONDS = 12 * SECONDS_MAX


def parse(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    """Return what is asked for; what is left out, the environment says, as `make` hands it on."""
    names = [each.name for each in TARGETS]
    environment = os.environ.get
    parser = argparse.ArgumentParser(
        prog="python -m tests.fuzz",
        description="Feed every decoder damaged input, and look for wrong answers.",
    )
    parser.add_argument(
        "--seconds",
        type=float,
        default=float(environment("SECONDS") or 60),
        help="how long to run; default: $SECONDS, or 60",
    )
    parser.add_argument(
        "--seed",
        type=int,
        default=int(environment("SEED") or secrets.randbelow(1 << 32)),
        help="a seed gives the same inputs again; default: $SEED, or by chance",
    )
    parser.add_argument(
        "targets",
        nargs="*",
        metavar="TARGET",
        help=f"{', '.join(names)}; default: $TARGETS, with commas between them, or all",
    )
    chosen = parser.parse_args(arguments)
    chosen.targets = chosen.targets or list(filter(None, environment("TARGETS", "").split(",")))
    unknown = set(chosen.targets) - set(names)
    if unknown:
        parser.error(f"no such target: {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    return chosen


def main(arguments: Sequence[str] | None = None) -> int:
    """Run for so many seconds, not counting the start; return 1 if a bug was found, or nothing run.

    A worker that an input ends is started again, with the inputs of another seed.
    """
    asked = parse(arguments)
    targets = [each for each in TARGETS if not asked.targets or each.name in asked.targets]
    with closing(Board(len(targets))) as board:
        return run_for(asked.seconds, targets, board, seed=asked.seed)


def run_for(seconds: float, targets: list[Target], board: Board, *, seed: int) -> int:
    """Run targets for so many seconds, and print what was found; return as `main`."""
    corpora = [tuple(target.seeds()) for target in targets]
    failed = supervise(targets, board, lambda: replay(targets, board))
    began = time.monotonic()
    deadline = began + seconds
    run = 0
    while run == 0 or time.monotonic() < deadline:
        task = partial(work, targets, corpora, seed + run, deadline, board)
        failed |= supervise(targets, board, task)
        run += 1
    took = time.monotonic() - began
    for target, count in zip(targets, board.counts, strict=True):
        print(f"{target.name:20} {count:10,}")
    total = sum(board.counts)
    rate = total / max(took, 1e-9)
    print(f"{'executions':20} {total:10,}  in {took:.0f} s, {rate:,.0f} per second; SEED={seed}")
    idle = [target.name for target, count in zip(targets, board.counts, strict=True) if not count]
    if idle:
        print(f"No executions of {', '.join(idle)}.")
    print(board.bugs.rstrip() or ("The worker itself failed." if failed else "No bugs."))
    return int(failed or bool(idle))


def supervise(targets: list[Target], board: Board, task: Callable[[], int]) -> bool:
    """Run a task in a process to its end, whatever that is; return whether it found a bug."""
    sys.stdout.flush()
    pid = os.fork()
    if pid == 0:
        code = 2
        try:
            code = int(task() > 0)
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
        elif time.monotonic() - since > _STUCK_SECONDS:
            # Neither the alarm nor anything else got through to it.
            os.kill(pid, signal.SIGKILL)
        time.sleep(_POLL_SECONDS)
    if os.WIFEXITED(status):
        if os.WEXITSTATUS(status) == 2:
            print("the worker itself failed")
        return os.WEXITSTATUS(status) != 0
    index, data = board.input
    what = signal.Signals(os.WTERMSIG(status)).name
    board.found(f"{targets[index].name}: the process ended by {what}", save(targets[index], data))
    return True


if __name__ == "__main__":
    sys.exit(main())
