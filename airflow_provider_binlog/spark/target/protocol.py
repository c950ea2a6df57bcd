"""What the merge asks of a table format: the same few things of Delta and of Iceberg."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.spark.plan.evolution import Evolution
    from airflow_provider_binlog.spark.target.mark import Mark
    from airflow_provider_binlog.spark.target.state import TargetState

DELETED = "deleted"
"""Column of the source rows: whether the row's key is to be deleted."""


LACKS = "lacks"
"""Column of the source rows where images lack columns: what the row needs that the range does not
hold; NULL if it is whole."""


def held(group: int) -> str:
    """Return the name of the source rows' column that says whether they hold a group of columns."""
    return f"held{group}"


def source_column(index: int) -> str:
    """Return the name, among the source rows, of a table's column."""
    return f"c{index}"


@dataclass(frozen=True)
class Commit:
    """What one commit did to the target.

    Attributes:
        inserted, updated, deleted: Rows; None where the format does not say.
        version: Delta's version, or the id of Iceberg's snapshot, that holds them.
        missing: Rows that were updated or deleted, and that the target did not have; None where
            that is not known.
    """

    inserted: int | None = None
    updated: int | None = None
    deleted: int | None = None
    version: int | None = None
    missing: int | None = None

    @property
    def rows(self) -> dict[str, int | None]:
        """The rows by what was done to them."""
        return {"inserted": self.inserted, "updated": self.updated, "deleted": self.deleted}

    def __add__(self, other: Commit) -> Commit:
        """Return what two commits did, one after the other."""
        pairs = [(count, other.rows[name]) for name, count in self.rows.items()]
        pairs.append((self.missing, other.missing))
        inserted, updated, deleted, missing = (
            one + more if one is not None and more is not None else None for one, more in pairs
        )
        return Commit(inserted, updated, deleted, other.version, missing)


@dataclass(frozen=True)
class Applied:
    """What is committed with the data: how much of the log the table contains then.

    Attributes:
        source: Name of the source.
        mark: How much.
        stop: Where the range ends that the last manifest covers.
        table: Id of the table whose rows it has then.
        snapshot: Id of the snapshot that it was last loaded from; empty if from none.
    """

    source: str
    mark: Mark
    stop: str
    table: TableId | None = None
    snapshot: str = ""


class Lake(Protocol):
    """Tables of one format. `target` is a quoted name; no other thread changes `session`."""

    @property
    def settings(self) -> Mapping[str, str]:
        """What a session needs to have set before it sees a table."""

    @property
    def filters(self) -> bool:
        """Whether large targets of a MERGE are filtered by the source's keys first."""

    def target(self, database: str, table: str) -> str:
        """Return the quoted name of the table that follows a table of the source."""

    def find_state(self, session: SparkSession, target: str) -> TargetState | None:
        """Return the table's state; None if there is no such table."""

    def create(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
    ) -> None:
        """Make an empty table."""

    def new_column_ids(self, columns: Iterable[str]) -> dict[str, str]:
        """Return the ids that the columns of a new table get, by name; see `TargetState`."""

    def create_as(
        self,
        session: SparkSession,
        target: str,
        columns: Mapping[str, str],
        properties: Mapping[str, str],
        applied: Applied,
    ) -> None:
        """Make a table of the source rows in `merge_sql.CHANGES`, and commit `applied` with them.

        A catalog that cannot do both at once may leave an empty table, without `applied`.
        """

    def evolve(
        self, session: SparkSession, target: str, state: TargetState, evolution: Evolution
    ) -> dict[str, str]:
        """Change the columns; return what is still to be filled in, as `Evolution.filled`."""

    def merge(
        self,
        session: SparkSession,
        target: str,
        state: TargetState,
        statement: str,
        applied: Applied,
    ) -> Commit | None:
        """Run a MERGE and commit `applied` with it; None if that was there already.

        Raises:
            TargetConflictError: Another merge of this source came between `state` and the commit.
        """

    def overwrite(
        self, session: SparkSession, target: str, state: TargetState, query: str, applied: Applied
    ) -> Commit | None:
        """Replace every row by the result of a query, and commit `applied` with it."""
