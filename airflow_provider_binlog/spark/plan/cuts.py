"""Where a range is cut: after a segment, or before what a lake table cannot follow."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.spark.plan.table_log import Point, Step
    from airflow_provider_binlog.spark.target.mark import Mark

_TEXT_MAX = 200


@dataclass(frozen=True)
class Cut:
    """Where a segment ends.

    Attributes:
        mark: What a lake table has that contains everything before it.
        point: Rows from here on are after it.
        position: Where it is in the source's log.
    """

    mark: Mark
    point: Point
    position: str

    @classmethod
    def at_step(cls, step: Step) -> Cut:
        """Return the cut before an action."""
        return cls(step.mark, step.point, step.position)

    @classmethod
    def at_manifest(cls, manifest: Manifest, mark: Mark) -> Cut:
        """Return the cut before a manifest."""
        return cls(mark, (manifest.sequence, 0), str(manifest.start))


@dataclass(frozen=True)
class Stop:
    """The lake table keeps the rows from before this: it cannot follow what comes here.

    Attributes:
        cut: Where it is.
        reason: Why, in words.
        statement: The statement; empty where there is none.
    """

    cut: Cut
    reason: str
    statement: str = ""

    @classmethod
    def at_step(cls, step: Step, reason: str) -> Stop:
        """Return the stop at an action."""
        return cls(Cut.at_step(step), reason, step.statement.text[:_TEXT_MAX])

    @property
    def explanation(self) -> str:
        """What it is, and what to do, for people."""
        ran = f" ({self.statement})" if self.statement else ""
        return f"{self.reason}{ran}: reload the table"
