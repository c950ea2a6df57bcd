"""What the merge asks of a table format: the same few things of Delta and of Iceberg."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, refuse_filled_columns
from airflow_provider_binlog.spark.staged.shapes import refuse_case_twins
from airflow_provider_binlog.spark.staged.types import widens

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.spark.plan.statements import TableName

SOURCE = "binlog.source"
"""Table property: the name of the source."""

IDENTITY = "binlog.identity"
"""Table property: the server whose log the table follows."""

TABLE = "binlog.table"
"""Table property: database and table at the source."""

KEY = "binlog.key"
"""Table property: the key columns rows are merged by, as a JSON list; empty for a changelog."""

DROPPED = "binlog.dropped"
"""Table property: the marker under which the table was dropped at the source. It holds only while
the marker is still that one: any later commit has used the name again."""


@dataclass(frozen=True)
class TargetState:
    """A target table at one moment.

    Attributes:
        columns: Name and Spark type of each column, in order.
        properties: The table's properties.
        marker: Number of the last manifest applied to it; 0 for none.
        files: How many data files it has.
        bytes: Their size.
        snapshot: The format's number of this state; None for a table never written to.
    """

    columns: dict[str, str]
    properties: dict[str, str]
    marker: int
    files: int
    bytes: int
    snapshot: int | None

    @property
    def dropped(self) -> bool:
        """Whether the table is dropped at the source, and its rows are only kept."""
        return self.properties.get(DROPPED) == str(self.marker)


@dataclass(frozen=True)
class Commit:
    """What one commit did to the rows of the target; None where the format does not say."""

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None


@dataclass(frozen=True)
class Marker:
    """What is committed with the data.

    Attributes:
        source: Name of the source.
        sequence: Number of the last manifest applied.
        stop: Where that manifest's range ends.
    """

    source: str
    sequence: int
    stop: str


class Lake(Protocol):
    """Tables of one format. `session` belongs to one table; `target` is its quoted name."""

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of the table that follows a table of the source."""

    def maybe_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the table's state; None if there is no such table."""

    def create(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        """Make an empty table."""

    def add_columns(self, session: SparkSession, target: str, columns: Mapping[str, str]) -> None:
        """Add columns, NULL in every row."""

    def widen_columns(self, session: SparkSession, target: str, columns: Mapping[str, str]) -> None:
        """Give columns a wider type."""

    def merge(
        self, session: SparkSession, target: str, state: TargetState, statement: str, marker: Marker
    ) -> Commit | None:
        """Run a MERGE and commit the marker with it; None if the marker was there already.

        Raises:
            TargetConflictError: Another merge of this source came between `state` and the commit.
        """

    def overwrite(
        self, session: SparkSession, target: str, state: TargetState, query: str, marker: Marker
    ) -> Commit | None:
        """Replace every row by the result of a query, and commit the marker with it."""


def owner_properties(source: str, identity: SourceIdentity, name: TableName) -> dict[str, str]:
    """Return the properties that say which table of which log a target follows."""
    return {
        SOURCE: source,
        IDENTITY: json.dumps(identity.to_json(), sort_keys=True),
        TABLE: json.dumps(name, ensure_ascii=False),
    }


def key_property(key: Sequence[str]) -> dict[str, str]:
    """Return the property that says what rows are merged by."""
    return {KEY: json.dumps(key, ensure_ascii=False)}


def check_properties(target: str, state: TargetState, wanted: Mapping[str, str]) -> None:
    """Refuse a target that follows something else: its marker says nothing about our changes.

    Raises:
        MergeError: A property is missing or differs.
    """
    for name, value in wanted.items():
        found = state.properties.get(name)
        if found != value:
            raise MergeError(
                "the target table does not follow this table of this source: "
                "drop it, choose another target, or set the property if you know that it does",
                target=target,
                property=name,
                found=found,
                wanted=value,
            )


def check_owner(
    target: str,
    state: TargetState,
    *,
    source: str,
    servers: Sequence[SourceIdentity],
    name: TableName,
) -> None:
    """Refuse a target that does not follow this table of this source.

    `servers` are those whose logs the source has gone through, the newest first: which of them the
    target names depends on when it changed last.

    Raises:
        MergeError: A property is missing or differs.
    """
    allowed = [owner_properties(source, server, name) for server in servers]
    found = (each for each in allowed if each[IDENTITY] == state.properties.get(IDENTITY))
    check_properties(target, state, next(found, allowed[0]))


@dataclass(frozen=True)
class Evolution:
    """How a target has to change before the merge.

    Attributes:
        added: Columns to add.
        widened: Columns to give a wider type.
    """

    added: dict[str, str]
    widened: dict[str, str]


def plan_evolution(plan: TablePlan, state: TargetState) -> Evolution:
    """Compare a target with the table's newest shape.

    Raises:
        MergeError: The target has columns that the table has no more, or of types it cannot leave.
    """
    wanted, found = plan.target_columns, state.columns
    context = {"table": plan.table, "position": plan.position}
    added = {name: type_ for name, type_ in wanted.items() if name not in found}
    lost = [name for name in found if name not in wanted]
    refuse_case_twins(plan.table, [*found, *added])
    if lost:
        raise MergeError(
            "the lake table has columns that the table has no more: drop or rename them there as "
            "at the source, or drop the lake table and load it anew",
            **context,
            column=",".join(lost),
            new=",".join(added),
        )
    if plan.fate.emptied_at is None:
        refuse_filled_columns([name for name in added if name in plan.doubtful], context)
    changed = {
        name: type_ for name, type_ in wanted.items() if name in found and found[name] != type_
    }
    for name, type_ in changed.items():
        if not widens(found[name], type_):
            raise MergeError(
                "a column's type changed in a way that the lake table cannot follow: "
                "drop the lake table and load it anew",
                **context,
                column=name,
                before=found[name],
                now=type_,
            )
    return Evolution(added, changed)


def evolve(session: SparkSession, lake: Lake, target: str, evolution: Evolution) -> None:
    """Change the target as planned."""
    if evolution.added:
        lake.add_columns(session, target, evolution.added)
    if evolution.widened:
        lake.widen_columns(session, target, evolution.widened)
