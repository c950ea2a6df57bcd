"""Run the matrix, and print what was run: `python -m tests.faults [--write | pytest's options]`.

With `--write` nothing is run, and the table of docs/reliability.md is written.
"""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from tests.faults.matrix import ROWS, TESTS, Cell, find_cells, table

PAGE = TESTS.parent / "docs" / "reliability.md"
_BEGIN, _END = "<!-- matrix -->\n", "<!-- end of the matrix -->\n"


def main(arguments: list[str]) -> int:
    """Run all cells with pytest's arguments; return its exit code."""
    cells = find_cells()
    if arguments == ["--write"]:
        PAGE.write_text(with_table(PAGE.read_text(encoding="utf-8"), cells), encoding="utf-8")
        return 0
    counted = Counted()
    files = sorted({cell.test.partition("::")[0] for cell in cells})
    marks = ["-m", "fault and (slow or not slow)"]
    code = pytest.main([*marks, *arguments, *files], plugins=[counted])
    print("\n" + report(cells, counted))
    return int(code)


def with_table(page: str, cells: list[Cell]) -> str:
    """Return a page with the table in its place."""
    before, _, rest = page.partition(_BEGIN)
    _, _, after = rest.partition(_END)
    return f"{before}{_BEGIN}\n{table(cells)}\n{_END}{after}"


class Counted:
    """Counts how each test ended; a plugin of pytest."""

    def __init__(self) -> None:
        self.ended: dict[str, Counter[str]] = {}

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Count a test that ran, that was skipped, or whose fixtures failed."""
        if report.when == "call" or report.outcome != "passed":
            path = Path(report.nodeid.partition("::")[0])
            test = f"{path}::{report.nodeid.partition('::')[2].partition('[')[0]}"
            self.ended.setdefault(test, Counter())[report.outcome] += 1


def report(cells: list[Cell], counted: Counted) -> str:
    """Return a line for each row: how many of its tests passed, failed, were skipped."""
    lines = []
    for name, row in ROWS.items():
        total: Counter[str] = Counter()
        for cell in cells:
            if cell.row == name:
                total += counted.ended.get(cell.test, Counter())
        ends = ", ".join(f"{count} {how}" for how, count in sorted(total.items())) or "not run"
        lines.append(f"{name:20} {ends:30} {row.title}")
    return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
