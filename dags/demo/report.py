"""What the demo shows on standard output."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.compare import Difference

DIFFERENCES_SHOWN = 5


@dataclass(frozen=True)
class Outcome:
    """How one table came out of a run.

    Attributes:
        rows: How many the source has now.
        inserts, updates, deletes: Changes that the run staged.
        seconds: Of the merge of this table.
        differences: What is not equal; empty is what we hope for.
        stale: Why the lake table is as it was before; empty if it is not.
    """

    table: str
    rows: int
    inserts: int
    updates: int
    deletes: int
    seconds: float
    differences: Sequence[Difference]
    stale: str = ""

    @property
    def equal(self) -> bool:
        """Whether lake and source hold the same."""
        return not self.differences


def table(outcomes: Sequence[Outcome]) -> str:
    """Return the outcomes as lines of text."""
    head = ("table", "rows", "inserts", "updates", "deletes", "seconds", "equal")
    lines = [head] + [
        (
            each.table,
            f"{each.rows:,}",
            f"{each.inserts:,}",
            f"{each.updates:,}",
            f"{each.deletes:,}",
            f"{each.seconds:.1f}" if each.seconds else "-",
            "stale" if each.stale else "yes" if each.equal else "NO",
        )
        for each in outcomes
    ]
    widths = [max(len(line[index]) for line in lines) for index in range(len(head))]
    rows = (
        [line[0].ljust(widths[0])]
        + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:], strict=True)]
        for line in lines
    )
    return "\n".join("    " + "  ".join(row) for row in rows)


def differences(outcome: Outcome) -> str:
    """Return the first differences of a table as lines of text."""
    count = len(outcome.differences)
    first = [f"      {each}" for each in outcome.differences[:DIFFERENCES_SHOWN]]
    return "\n".join([f"    {outcome.table} differs in {count:,} places; the first:", *first])
