"""A soak fails where memory, the lag, or what is open grows with the runs, and only there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from tests.soak.figures import Figures, Sample, WrongError

RUNS = 60


def figures(**grown: Any) -> Figures:
    """Return samples that vary by chance, and of which one figure does as a function says."""
    random = Random(7)
    found = Figures()
    for number in range(RUNS):
        values = dict.fromkeys(Sample.__dataclass_fields__, 100) | {
            name: random.randint(100, 180)
            for name in ("heap", "log_bytes", "log_seconds", "stale_seconds")
        }
        values |= {name: grow(number) for name, grow in grown.items()}
        found.samples.append(Sample(**values))
    return found


def test_what_varies_does_not_grow() -> None:
    figures().check()
    figures(files=lambda number: 20 + number % 3, log_bytes=lambda _: 0).check()


@pytest.mark.parametrize("name", ["resident", "peak", "heap", "log_bytes", "stale_seconds"])
def test_what_grows_with_each_run_is_refused(name: str) -> None:
    with pytest.raises(WrongError, match="grows"):
        figures(**{name: lambda number: 100 * (number + 1)}).check()


@pytest.mark.parametrize("name", ["files", "threads", "java_files"])
def test_what_is_left_open_now_and_then_is_refused(name: str) -> None:
    with pytest.raises(WrongError, match="left open"):
        figures(**{name: lambda number: 20 + number // 10}).check()
