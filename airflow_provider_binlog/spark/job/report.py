"""What a merge reports: one line of JSON for people's logs and the operator's XCom."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.target.state import NOTHING, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from airflow_provider_binlog.position import Position
    from airflow_provider_binlog.spark.target.state import Hold

FORMAT = "airflow-provider-binlog/merge-report"

UNMATCHED = (
    "globs match no staged table, in letters and case: correct them, unless their tables have not "
    "changed yet"
)


@dataclass
class TableReport:
    """The result of the merge of one table.

    Attributes:
        table: `database.table` at the source.
        target: The lake table, as SQL names it.
        hold: Why the table is not merged, until it is reloaded; None if it is.
        is_merged: Whether anything was committed.
        lacks: What a merged table lacks, if the author chose that.
        snapshot: Id of the snapshot that was loaded; or why a newer one is not.
        applied_before, applied_after: How much of the log the target contained, and contains.
        changes: Change rows that were read, by type.
        rows: Rows of the target that were inserted, updated and deleted, where the format says.
        missing_rows: Rows that were updated or deleted, and that the target did not have: it lacked
            them before. None where that is not known: after a reload, without a key.
        bytes: Size of the parts that were read.
        version: Delta's version of the target, or the id of Iceberg's snapshot, with these rows.
        seconds: How long it took.
        error: Why it failed.
        retryable: Whether the same merge may succeed later.
    """

    table: str
    target: str
    hold: Hold | None = None
    is_merged: bool = False
    lacks: str = ""
    snapshot: str = ""
    applied_before: Mark = NOTHING
    applied_after: Mark = NOTHING
    changes: dict[str, int] = field(default_factory=dict)
    rows: dict[str, int | None] = field(default_factory=dict)
    missing_rows: int | None = None
    bytes: int = 0
    version: int | None = None
    seconds: float = 0.0
    error: str | None = None
    retryable: bool = False

    @property
    def status(self) -> str:
        """`failed`, `loading`, `stale`, `merged`, or `current` where there is nothing to do."""
        if self.error is not None:
            return "failed"
        if self.hold is not None:
            return self.hold.state
        return "merged" if self.is_merged else "current"

    @property
    def reason(self) -> str:
        """Why the table is not merged, or what it lacks."""
        return self.lacks if self.hold is None else self.hold.reason

    @property
    def position(self) -> str:
        """Where in the log that happened; empty if nowhere in particular."""
        return "" if self.hold is None else self.hold.position

    def to_json(self) -> dict[str, Any]:
        """Return the report as a value of JSON."""
        value = asdict(self)
        del value["is_merged"], value["hold"], value["lacks"]
        value["since"] = "" if self.hold is None else self.hold.since
        return value | {name: getattr(self, name) for name in ("status", "reason", "position")}

    def line(self) -> str:
        """Return what a person wants to read as the table is done."""
        if self.error is not None:
            return f"{self.table}: failed after {self.seconds:.1f} s: {self.error}"
        counts = [f"{count:,} {kind}" for kind, count in self.rows.items() if count is not None]
        rows = f"{', '.join(counts)} rows" if counts else self.status
        version = "" if self.version is None else f", version {self.version}"
        missing = ""
        if self.missing_rows:
            missing = f", {self.missing_rows:,} rows that were updated or deleted were not there"
        return f"{self.table}: {rows} in {self.seconds:.1f} s{version}{missing}"


@dataclass(frozen=True)
class Report:
    """The result of a merge.

    Attributes:
        source: Name of the source.
        through: Number of the last manifest it covers.
        tables: One entry for each table that the manifests changed.
        seconds: How long all of it took.
        error: Why it failed, if that is not because of a table.
        retryable: Whether that may pass.
        unmatched: The globs of the merge that match no table of which anything is staged, but for
            those that leave out what is not captured.
        stop: Up to where in the log the lake is merged; None before the first manifest.
        versions: By live table, the version of its lake table that has the log up to there, and
            nothing after it: together they are one state of the source.
    """

    source: str
    through: int
    tables: Sequence[TableReport]
    seconds: float
    error: str | None = None
    retryable: bool = False
    unmatched: Sequence[str] = ()
    stop: Position | None = None
    versions: Mapping[str, int] = field(default_factory=dict)

    @property
    def failed(self) -> bool:
        """Whether anything failed."""
        return self.error is not None or any(each.error is not None for each in self.tables)

    @property
    def held(self) -> list[TableReport]:
        """Return the tables that are left alone until they are reloaded."""
        return [each for each in self.tables if each.error is None and each.hold is not None]

    @property
    def may_pass(self) -> bool:
        """Whether every failure may pass by itself."""
        failures = [each.retryable for each in self.tables if each.error is not None]
        if self.error is not None:
            failures.append(self.retryable)
        return all(failures)

    def to_json(self) -> str:
        """Return the report as one line."""
        value = {
            "format": FORMAT,
            "source": self.source,
            "through": self.through,
            "status": "failed" if self.failed else "merged",
            "retryable": self.failed and self.may_pass,
            "seconds": round(self.seconds, 3),
            "error": self.error,
            "unmatched": list(self.unmatched),
            "stop": None if self.stop is None else self.stop.to_json(),
            "versions": dict(self.versions),
            "tables": [table.to_json() for table in self.tables],
        }
        return json.dumps(value, ensure_ascii=False)
