"""The state of each table of a source: in the lakes, and in what no merge has read yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from airflow_provider_binlog.manifest import QuarantinedTable
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.schema import TableName, ends_by_reload
from airflow_provider_binlog.spark.merge.progress import Progress, TableProgress
from airflow_provider_binlog.status.ranges import RangeSummary, read_time


class State(StrEnum):
    """State of a table, those that need a person first."""

    QUARANTINED = "quarantined"
    STALE = "stale"
    SUSPECT = "suspect"
    LOADING = "loading"
    STAGED = "staged"
    LIVE = "live"


@dataclass(frozen=True, kw_only=True)
class TableStatus:
    """The state of a table in one lake, or before any.

    Attributes:
        lake: Where, for people; empty if no merge has noted the table.
        since: When it was first found so; None if that is not noted.
        reason: Why it is not live, and what to do; empty where it is.
        position: Where in the log that happened; empty if nowhere in particular.
        through: Number of the last manifest that the lake table contains as a whole.
        waits: Whether staged changes wait for the next merge.
        rows: Change rows in the ranges that were read.
        last_commit: Of these rows; None without any.
    """

    name: TableName
    lake: str = ""
    state: State
    since: datetime | None = None
    reason: str = ""
    position: str = ""
    through: int = 0
    waits: bool = False
    rows: int = 0
    last_commit: datetime | None = None

    @property
    def text(self) -> str:
        """The name, for people and commands."""
        return join_table_name(self.name)

    @property
    def needs_reload(self) -> bool:
        """Whether a reload ends its state."""
        return self.state not in (State.LIVE, State.STAGED) and ends_by_reload(self.reason)


def read_tables(
    lakes: Sequence[Progress],
    ranges: Sequence[RangeSummary],
    unmerged: Iterable[TableName] = (),
) -> tuple[TableStatus, ...]:
    """Return the state of each table in each lake, those that need a person first, then by name.

    Args:
        lakes: What the merges of each lake have noted.
        ranges: The newest ones, the newest first.
        unmerged: Tables of which snapshots are staged or being read.
    """
    changed = _count_changes(ranges)
    found = [status for lake in lakes for status in _of_lake(lake, ranges, changed)]
    merged = {status.name for status in found}
    quarantined = _find_quarantined(ranges, after=0)
    others = {*changed, *unmerged, *quarantined} - merged
    found += [
        _status(name, changed, quarantined.get(name), state=State.STAGED, waits=True)
        for name in others
    ]
    order = list(State)
    return tuple(
        sorted(found, key=lambda table: (order.index(table.state), table.name, table.lake))
    )


def _of_lake(
    lake: Progress, ranges: Sequence[RangeSummary], changed: Mapping[TableName, _Changes]
) -> Iterator[TableStatus]:
    quarantined = _find_quarantined(ranges, after=lake.through)
    newer = {
        table.name
        for summary in ranges
        if summary.sequence > lake.through
        for table in summary.tables
    }
    for name, table in lake.tables.items():
        if not table.chosen:
            # It is merged into another lake, or into none.
            continue
        known = {
            "lake": lake.lake,
            "through": max(table.mark.sequence, 0 if table.pending else lake.through),
            "waits": table.pending or name in newer,
        }
        yield _status(name, changed, quarantined.get(name), **known, **_describe(table))


def _describe(table: TableProgress) -> dict[str, object]:
    if table.hold is not None:
        state = State.LOADING if table.hold.state == "loading" else State.STALE
        since = read_time(table.hold.since) if table.hold.since else None
        return {
            "state": state,
            "since": since,
            "reason": table.hold.reason,
            "position": table.hold.position,
        }
    if table.foreign_write is not None:
        time = table.foreign_write.time
        return {
            "state": State.SUSPECT,
            "since": read_time(time) if time else None,
            "reason": str(table.foreign_write),
        }
    return {"state": State.LIVE}


@dataclass(frozen=True)
class _Changes:
    rows: int
    last_commit: datetime


def _count_changes(ranges: Sequence[RangeSummary]) -> dict[TableName, _Changes]:
    counted: dict[TableName, _Changes] = {}
    for summary in reversed(ranges):
        for name, rows, last_commit in summary.tables:
            before = counted.get(name)
            counted[name] = _Changes(rows + (before.rows if before else 0), last_commit)
    return counted


def _find_quarantined(
    ranges: Sequence[RangeSummary], *, after: int
) -> dict[TableName, tuple[QuarantinedTable, datetime]]:
    """Return the first quarantine of each table in the ranges after a manifest."""
    return {
        (table.database, table.table): (table, summary.created_at)
        for summary in ranges
        if summary.sequence > after
        for table in reversed(summary.quarantined)
    }


def _status(
    name: TableName,
    changed: Mapping[TableName, _Changes],
    quarantine: tuple[QuarantinedTable, datetime] | None,
    **known: object,
) -> TableStatus:
    if quarantine is not None and known["state"] in (State.LIVE, State.SUSPECT, State.STAGED):
        table, since = quarantine
        known |= {
            "state": State.QUARANTINED,
            "since": since,
            "reason": table.reason,
            "position": table.position,
        }
    counted = changed.get(name)
    if counted is not None:
        known |= {"rows": counted.rows, "last_commit": counted.last_commit}
    return TableStatus(name=name, **known)  # type: ignore[arg-type]
