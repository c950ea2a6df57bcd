"""What a soak measures after each run of a source, and what must not grow over the runs."""

from __future__ import annotations

import gc
import json
import statistics
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

# A process needs a while until all of its code is loaded and its pools are filled.
_WARM_RUNS = 8
_MEMORY_GROWTH_MAX = 1.15
# What a run takes depends on who else uses the machine. What grows with each run is five times as
# much in the last third.
_LAG_GROWTH_MAX = 3.0
_MIB = 1 << 20


class WrongError(Exception):
    """A lake table is not what SELECT returns, the lag or memory grows, something is left open."""


@dataclass(frozen=True)
class Sample:
    """What was measured when a run had succeeded.

    Attributes:
        seconds: How long the run took, its tries included.
        log_bytes: How much the server has logged that the checkpoint does not cover.
        log_seconds: Since when: the log ended at the checkpoint, or before it, so long ago.
        stale_seconds: For how long, at most, a change was logged and not in the lake.
        resident: Resident bytes of the process that runs the tasks and the driver of the merges.
        peak: At most, since the run before: while a task ran.
        java: Resident bytes of Spark's process.
        heap: Bytes of live objects in it.
        files, threads, java_files: Open in the two processes.
    """

    seconds: float
    log_bytes: int
    log_seconds: float
    stale_seconds: float
    resident: int
    peak: int
    java: int
    heap: int
    files: int
    threads: int
    java_files: int


@dataclass
class Figures:
    """What was measured of one source.

    Attributes:
        mishaps: How often each fault was tried.
        errors: How often each error failed a task.
        samples: One for each run.
        compared: How many comparisons of a table held.
        rows: How many changes are staged.
    """

    mishaps: Counter[str] = field(default_factory=Counter)
    errors: Counter[str] = field(default_factory=Counter)
    samples: list[Sample] = field(default_factory=list)
    compared: int = 0
    rows: int = 0

    def lag_growth(self, value: Callable[[Sample], float]) -> float:
        """Return how much more the last third of the runs has than the first: of their medians."""
        first, last = self._thirds(value, 0)
        return statistics.median(last) / (statistics.median(first) or 1.0) if first else 1.0

    def memory_growth(self, value: Callable[[Sample], float]) -> float:
        """Return how much more the last third has at least: a leak is never given back.

        More than the second third has: an hour's first third is needed until no pool grows.
        """
        values = [value(each) for each in self.samples]
        third = len(values) // 3
        second, last = values[third : 2 * third], values[len(values) - third :]
        return min(last) / min(second) if second else 1.0

    def check(self) -> None:
        """Refuse what grows.

        Raises:
            WrongError: Memory, the lag, or what is open.
        """
        for name, value in _MEMORY.items():
            if self.memory_growth(value) > _MEMORY_GROWTH_MAX:
                raise WrongError(f"{name} grows: {[value(each) for each in self.samples]}")
        for name, value in _LAG.items():
            if self.lag_growth(value) > _LAG_GROWTH_MAX:
                raise WrongError(f"{name} grows: {[value(each) for each in self.samples]}")
        for name, value in _OPEN.items():
            first, last = self._thirds(value, _WARM_RUNS)
            if first and min(last) > max(first):
                raise WrongError(f"{name} left open: {[value(each) for each in self.samples]}")

    def lines(self) -> list[str]:
        """Return the figures for people."""
        runs = [each.seconds for each in self.samples]
        growths = {name: self.lag_growth(value) for name, value in _LAG.items()}
        sizes = {name: self.memory_growth(value) for name, value in _SIZES.items()}
        return [
            f"{len(runs)} runs of {_spread(runs, 's')}",
            f"{self.rows} changes, {self.compared} comparisons equal SELECT",
            *(
                f"{name} {_spread([value(each) for each in self.samples], unit)}"
                for names, unit in ((_LAG_SECONDS, "s"), (_LAG_BYTES, "MiB"), (_SIZES, "MiB"))
                for name, value in names.items()
            ),
            *(
                f"{name} {_spread([value(each) for each in self.samples], '')}"
                for name, value in _OPEN.items()
            ),
            f"last third to first third: {_named(growths)}",
            f"last third to second third: {_named(sizes)}",
            f"faults {json.dumps(dict(sorted(self.mishaps.items())))}",
            f"errors {json.dumps(dict(sorted(self.errors.items())))}",
        ]

    def _thirds(
        self, value: Callable[[Sample], float], warm: int
    ) -> tuple[Sequence[float], Sequence[float]]:
        values = [value(each) for each in self.samples[warm:]]
        third = len(values) // 3
        return values[:third], values[len(values) - third :]


def _named(growths: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {growth:.2f}" for name, growth in growths.items())


def _resident(sample: Sample) -> float:
    return sample.resident / _MIB


def _peak(sample: Sample) -> float:
    return sample.peak / _MIB


def _java(sample: Sample) -> float:
    return sample.java / _MIB


def _heap(sample: Sample) -> float:
    return sample.heap / _MIB


_LAG_SECONDS: dict[str, Callable[[Sample], float]] = {
    "lag": lambda each: each.log_seconds,
    "lag before the run": lambda each: each.stale_seconds,
}
_LAG_BYTES: dict[str, Callable[[Sample], float]] = {
    "lag in the log": lambda each: each.log_bytes / _MIB
}
_LAG = {**_LAG_SECONDS, **_LAG_BYTES}
_MEMORY: dict[str, Callable[[Sample], float]] = {
    "resident": _resident,
    "peak": _peak,
    "java heap": _heap,
}
_SIZES = {**_MEMORY, "java resident": _java}
_OPEN: dict[str, Callable[[Sample], float]] = {
    "files": lambda each: each.files,
    "threads": lambda each: each.threads,
    "java files": lambda each: each.java_files,
}


def _spread(values: Sequence[float], unit: str) -> str:
    if not values:
        return "-"
    return f"{statistics.median(values):.1f} {unit} (at most {max(values):.1f})".replace(" )", ")")


@dataclass(frozen=True)
class Processes:
    """This process, and the Java machine of its Spark.

    Attributes:
        java: The id of the latter's process.
        machine: The way to it.
    """

    java: int
    machine: Any

    @classmethod
    def of(cls, spark: Any) -> Processes:
        """Return those of a session."""
        context = spark.sparkContext
        return cls(_java_of(context._gateway.proc.pid), context._jvm)

    def measure(self, **lag: float) -> Sample:
        """Return what is used and open now; measure the peak of the next run from here."""
        gc.collect()
        lang = self.machine.java.lang
        lang.System.gc()
        runtime = lang.Runtime.getRuntime()
        own = _status("self")
        sample = Sample(
            resident=own["VmRSS"],
            peak=own["VmHWM"],
            java=_status(self.java)["VmRSS"],
            heap=runtime.totalMemory() - runtime.freeMemory(),
            files=_open_files("self"),
            threads=threading.active_count(),
            java_files=_open_files(self.java),
            **lag,  # type: ignore[arg-type]
        )
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
        return sample


def _java_of(pid: int) -> int:
    """Return the Java machine that a shell script of Spark's has started, or become."""
    if Path(f"/proc/{pid}/comm").read_text(encoding="utf-8").startswith("java"):
        return pid
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return int(children[0]) if children else pid


def _status(pid: int | str) -> dict[str, int]:
    """Return the sizes in bytes that the kernel states of a process."""
    lines = Path(f"/proc/{pid}/status").read_text(encoding="ascii").splitlines()
    pairs = (line.split() for line in lines if line.endswith(" kB"))
    return {name.rstrip(":"): int(size) * 1024 for name, size, _ in pairs}


def _open_files(pid: int | str) -> int:
    return sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
