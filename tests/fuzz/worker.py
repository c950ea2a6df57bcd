"""One process that runs damaged inputs until its time is up, or until one of them ends it.

What it is doing stands in memory shared with the process that started it, so that an input is
known even if it crashes the interpreter or never returns.
"""

from __future__ import annotations

import contextlib
import hashlib
import mmap
import os
import resource
import signal
import struct
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random

from tests.fuzz.targets import Target, Wrong, execute

CRASHERS = Path(__file__).with_name("crashers")
"""A folder for each decoder, and in it every input that once was answered wrongly."""

SECONDS_MAX = 10.0
"""No input may take longer, in time of the processor: another machine may be a busy one."""

GROWTH_BYTES_MAX = 128 << 20
"""No input may make the process grow by more."""

_ADDRESS_BYTES = 3 << 30
_SLICE_SECONDS = 0.05
_INPUT_BYTES_MAX = 1 << 20
_HEAD = struct.Struct("<QII")
_SHRINK_SECONDS = 3.0


class Hang(BaseException):
    """An input took too long. No `Exception`, so that nothing on the way catches it."""


class Board:
    """What a worker is doing, written there and read by the process that started it."""

    def __init__(self, target_count: int) -> None:
        self._counts = struct.Struct(f"<{target_count}Q")
        self._memory = mmap.mmap(-1, _HEAD.size + self._counts.size + _INPUT_BYTES_MAX)
        self._input = _HEAD.size + self._counts.size
        self._bugs = tempfile.TemporaryFile("w+b", buffering=0)  # noqa: SIM115 - forked with us

    def close(self) -> None:
        """Free what is shared."""
        self._memory.close()
        self._bugs.close()

    def begin(self, number: int, target: int, data: bytes) -> None:
        """Say which input comes next."""
        data = data[:_INPUT_BYTES_MAX]
        self._memory[self._input : self._input + len(data)] = data
        _HEAD.pack_into(self._memory, 0, number, target, len(data))

    def end(self, counts: list[int]) -> None:
        """Say how many inputs each target has had."""
        self._counts.pack_into(self._memory, _HEAD.size, *counts)

    def found(self, bug: str, path: Path) -> None:
        """Say at once what was found, and keep it for the end."""
        lines = f"{bug}\n  saved as {path}"
        print(f"\n{lines}", flush=True)
        self._bugs.write(f"{lines}\n".encode())

    @property
    def bugs(self) -> str:
        """What was found, as it was said."""
        self._bugs.seek(0)
        return self._bugs.read().decode()

    @property
    def number(self) -> int:
        """How many inputs were begun."""
        return int(_HEAD.unpack_from(self._memory)[0])

    @property
    def counts(self) -> tuple[int, ...]:
        """How many inputs each target has had."""
        return self._counts.unpack_from(self._memory, _HEAD.size)

    @property
    def input(self) -> tuple[int, bytes]:
        """The target that runs, and its input."""
        _, target, size = _HEAD.unpack_from(self._memory)
        return target, self._memory[self._input : self._input + size]


def limit_memory() -> None:
    """Let an allocation that no input justifies fail, instead of the machine."""
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_BYTES, _ADDRESS_BYTES))


@contextlib.contextmanager
def limited() -> Iterator[None]:
    """Raise `Hang` or `MemoryError` in a body that takes too long or too much."""
    with limited_time(), limited_growth():
        yield


@contextlib.contextmanager
def limited_growth() -> Iterator[None]:
    """Raise `MemoryError` after a body that takes too much."""
    before = _peak_bytes()
    yield
    if (grown := _peak_bytes() - before) > GROWTH_BYTES_MAX:
        message = f"one input took {grown} bytes"
        raise MemoryError(message)


@contextlib.contextmanager
def limited_time() -> Iterator[None]:
    """Raise `Hang` in a body that takes too long: one input, or a slice of them."""

    def ring(*_: object) -> None:
        raise Hang

    earlier = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS_MAX)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, earlier)


def _peak_bytes() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def failure(target: Target, data: bytes) -> BaseException | None:
    """Return what is wrong with a target's answer to an input; None if nothing is."""
    try:
        with limited():
            execute(target, data)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any of them is a finding
        return error
    return None


def signature(error: BaseException) -> str:
    """Return what distinguishes one bug from another: the error, and our last line in it."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [frame for frame in frames if "airflow_provider_binlog" in frame.filename]
    last = (ours or frames)[-1:]
    where = "".join(f" in {Path(frame.filename).name}:{frame.lineno}" for frame in last)
    what = str(error).partition(":")[0] if isinstance(error, Wrong) else type(error).__name__
    return f"{what}{where}"


Corpora = Sequence[tuple[bytes, ...]]
"""The inputs to begin with, of each target."""


def replay(targets: Sequence[Target], board: Board) -> int:
    """Run every input that was saved; return how many are still answered wrongly."""
    limit_memory()
    found: set[str] = set()
    number = board.number
    for index, target in enumerate(targets):
        for path in sorted(CRASHERS.glob(f"{target.name}/*")):
            number += 1
            board.begin(number, index, data := path.read_bytes())
            if (error := failure(target, data)) is not None:
                found.add(bug := f"{target.name}: {signature(error)}")
                board.found(f"{bug}: not fixed yet", path)
    return len(found)


def work(
    targets: Sequence[Target], corpora: Corpora, seed: int, deadline: float, board: Board
) -> int:
    """Run damaged inputs until the deadline, of `time.monotonic`; return how many bugs were found.

    A seed gives each target the same inputs in the same order, on a slow machine fewer of them.
    Each target has as much time as any other.
    """
    lanes = [
        _Lane(index, target, corpus, Random(f"{seed} {target.name}"))
        for index, (target, corpus) in enumerate(zip(targets, corpora, strict=True))
    ]
    limit_memory()
    os.nice(5)
    counts = list(board.counts)
    number = board.number
    found: set[str] = set()
    while True:
        for lane in lanes:
            until = time.monotonic() + _SLICE_SECONDS
            while (wrong := _run(lane, until, board)) is not None:
                _judge(lane.target, *wrong, found, board)
            counts[lane.index] += board.number - number
            number = board.number
            board.end(counts)
            if time.monotonic() >= deadline:
                return len(found)


@dataclass(frozen=True)
class _Lane:
    """A target, and where its inputs come from."""

    index: int
    target: Target
    corpus: Sequence[bytes]
    random: Random


def _run(lane: _Lane, until: float, board: Board) -> tuple[bytes, BaseException] | None:
    """Run inputs for a slice of time, at least one.

    Returns None at its end, or before that an input that got a wrong answer, and the answer.
    """
    target, corpus, random, number = lane.target, lane.corpus, lane.random, board.number
    data = b""
    try:
        with limited_time():
            while True:
                data = target.mutate(random, random.choice(corpus), corpus)
                number += 1
                board.begin(number, lane.index, data)
                with limited_growth():
                    execute(target, data)
                if time.monotonic() >= until:
                    return None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # noqa: BLE001 - any of them is a finding
        return data, error


def _judge(
    target: Target, data: bytes, error: BaseException, found: set[str], board: Board
) -> None:
    bug = f"{target.name}: {signature(error)}"
    if bug in found:
        return
    found.add(bug)
    board.found(f"{bug}: {str(error)[:500]}", save(target, shrink(target, data, error)))


def shrink(target: Target, data: bytes, error: BaseException) -> bytes:
    """Return an input that shows the same bug, and of which no piece can be left out in time."""
    if isinstance(error, Hang | MemoryError):
        return data
    wanted = signature(error)
    deadline = time.monotonic() + _SHRINK_SECONDS
    size = max(1, len(data) // 2)
    while size and time.monotonic() < deadline:
        at = 0
        while at < len(data) and time.monotonic() < deadline:
            shorter = data[:at] + data[at + size :]
            same = failure(target, shorter)
            if same is not None and signature(same) == wanted:
                data = shorter
            else:
                at += size
        size //= 2
    return data


def save(target: Target, data: bytes) -> Path:
    """Keep an input where the unit tests find it."""
    path = CRASHERS / target.name / hashlib.sha256(data).hexdigest()[:16]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path
