"""What the merge asks of a table format: the same few things of Delta and of Iceberg."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.target.property_values import read_fields, read_key
from airflow_provider_binlog.spark.target.state import LakeState, read_state

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from airflow_provider_binlog.schema import TableId
    from airflow_provider_binlog.spark.plan.evolution import Evolution

KEY = "binlog.key"
"""Table property: the key columns rows are merged by, as a JSON list; empty for a changelog."""

TABLE_ID = "binlog.table_id"
"""Table property: the id of the table whose rows it has."""

FIELDS = "binlog.fields"
"""Table property: a JSON map from the field ids of that table to pairs. The first of a pair is the
format's own id of the column, or the column's name if it has none, and null for a column that is
being added. The second is the applied mark from which on rows from before the column was added
hold its initial default."""

UNSEEN = "unseen"
"""In place of a table id: the table was loaded from a snapshot, and the log has not mentioned it
since. It is the table that its name stands for where the log first mentions that."""

SNAPSHOT = "binlog.snapshot"
"""Table property: the id of the snapshot that the table was last loaded from. The commit of the
rows says it too, and counts while it is there."""

COPIED = "binlog.copied"
"""Table property: ids of Iceberg's, with commas between them, of columns that were copied from
others of another type. A commit that has their values says so, too: a restored one may not."""

ENDED = "binlog.ended"
"""Table property: the applied mark with which the name ceased to stand for a table, by DROP or
RENAME. It holds only while the applied mark is still that one."""


@dataclass(frozen=True)
class TargetState:
    """A target table at one moment.

    Attributes:
        columns: Name and Spark type of each column, in order.
        column_ids: The format's own id of each column, by name; the name where it has none.
        properties: The table's properties.
        contents: What it contains; nothing where that is unknown.
        unknown: Why that cannot be determined; None if it was.
        files: How many data files it has.
        bytes: Their size.
        is_empty: Whether it certainly has no rows.
        snapshot: The format's number of this state; None for a table never written to.
        fence: The number by which the format orders the merges of a source, if it does.
        blanks: What the properties of another source are set to, before any are believed.
        upgrade: Whether it may get a feature that a change of its columns needs, and that its
            readers have to know.
    """

    columns: dict[str, str]
    column_ids: dict[str, str]
    properties: dict[str, str]
    contents: Contents
    files: int
    bytes: int
    is_empty: bool
    snapshot: int | None
    unknown: str | None = None
    fence: int | None = None
    blanks: Mapping[str, str] = field(default_factory=dict)
    upgrade: bool = True

    @property
    def applied(self) -> Mark:
        """How much of the log it contains."""
        return self.contents.mark

    @property
    def loaded(self) -> str:
        """Id of the snapshot that it was last loaded from; empty if from none."""
        noted = self.contents.snapshot
        return self.properties.get(SNAPSHOT, "") if noted is None else noted

    @property
    def lake_state(self) -> LakeState:
        """Whether it is `loading`, `live` or `stale`."""
        if self.unknown is not None:
            return LakeState("loading", self.unknown)
        return read_state(self.properties, self.applied, self.loaded)

    @property
    def ended(self) -> bool:
        """Whether its name stands for no table at the source, and its rows are only kept."""
        return self.properties.get(ENDED) == str(self.applied)

    @property
    def table(self) -> TableId | None:
        """The table whose rows it has; None if it does not say."""
        return self.contents.table or self.properties.get(TABLE_ID)

    @property
    def has_ids(self) -> bool:
        """Whether its properties have the ids of that table and of its columns."""
        return self.table != UNSEEN and self.table == self.properties.get(TABLE_ID)

    @property
    def key(self) -> tuple[str, ...]:
        """The columns that rows are merged by; empty for a changelog.

        Raises:
            MergeError: It does not say, or the property was edited.
        """
        if KEY not in self.properties:
            raise MergeError("a property of the lake table is missing", property=KEY)
        return read_key(self.properties[KEY], KEY)

    @property
    def fields(self) -> dict[int, str]:
        """Names of its columns by field id."""
        names = {each: name for name, each in self.column_ids.items()}
        pairs = self.claims.items()
        return {field: names[column] for field, (column, _) in pairs if column in names}

    @property
    def unfilled(self) -> frozenset[int]:
        """Fields of columns that rows from before do not hold the initial default of yet."""
        pairs = self.claims.items()
        return frozenset(field for field, (_, since) in pairs if since > self.applied)

    @property
    def copied(self) -> frozenset[str]:
        """Columns that were copied from others of another type, by their ids, and have values."""
        known = read_copied(self.properties)
        return known if self.contents.copied is None else known & self.contents.copied

    @property
    def lost(self) -> frozenset[int]:
        """Fields whose columns somebody dropped, or restored to before they had values."""
        restored = read_copied(self.properties) - self.copied
        # By their names, if they got ids a moment ago.
        present = {*self.column_ids.values(), *self.columns, None} - restored
        return frozenset(
            field for field, (column, _) in self.claims.items() if column not in present
        )

    def filled_since(self, field: int) -> Mark:
        """Return from which applied mark on rows from before a field hold its default."""
        return self.claims.get(field, (None, NOTHING))[1]

    @property
    def claims(self) -> dict[int, tuple[str | None, Mark]]:
        """What the property `FIELDS` says, if it is that of the table.

        Raises:
            MergeError: It was edited.
        """
        return read_fields(self.properties.get(FIELDS, "{}"), FIELDS) if self.has_ids else {}


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


def read_copied(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the ids that the property `COPIED` lists, of a table or of a commit."""
    return frozenset(filter(None, properties.get(COPIED, "").split(",")))


def read_contents(found: Contents | str) -> tuple[Contents, str | None]:
    """Return what a table contains, and why that is unknown."""
    return (found, None) if isinstance(found, Contents) else (Contents(NOTHING), found)


def rows_of_another(source: str) -> str:
    """Return why it is unknown what a table contains whose rows are those of another source."""
    return f"its rows are those of source {source!r}: reload it"


def count_from_1(columns: Iterable[str]) -> dict[str, str]:
    """Return the ids of columns that a format counts."""
    return {name: str(number) for number, name in enumerate(columns, 1)}


def key_property(key: Sequence[str]) -> dict[str, str]:
    """Return the property that says what rows are merged by."""
    return {KEY: json.dumps(key, ensure_ascii=False)}


def table_property(table: TableId) -> dict[str, str]:
    """Return the property that says whose rows a target has."""
    return {TABLE_ID: table}


def new_fields_property(fields: Mapping[int, str], ids: Mapping[str, str]) -> dict[str, str]:
    """Return what `fields_property` is going to say of a target that is created.

    Args:
        fields: Names of its columns by field id.
        ids: The ids that the format is going to give them.
    """
    claims = {str(each): [ids[name], str(NOTHING)] for each, name in fields.items()}
    return {FIELDS: json.dumps(claims)}


def fields_property(
    state: TargetState, fields: Mapping[int, str], *, of_another: bool = False
) -> dict[str, str]:
    """Return the property that says which columns a target has of which fields.

    Args:
        state: The target, with all of the columns.
        fields: Their names by field id.
        of_another: Whether the fields are those of another table than the property has now.
    """
    since = {field: NOTHING if of_another else state.filled_since(field) for field in fields}
    found = {
        str(field): [state.column_ids[name], str(since[field])] for field, name in fields.items()
    }
    return {FIELDS: json.dumps(found)}


def claim_again(properties: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the property that says which fields a target has, once its columns have other ids.

    Args:
        properties: Those that the target has.
        ids: The new id by the old one.
    """
    if FIELDS not in properties:
        return {}
    found = {
        field: [column and ids.get(column, column), str(since)]
        for field, (column, since) in read_fields(properties[FIELDS], FIELDS).items()
    }
    return {FIELDS: json.dumps(found)}


def announce_fills(state: TargetState, fields: Collection[int], through: Mark) -> dict[str, str]:
    """Return the property that says which fields a merge adds and gives their initial default.

    Of two merges that do so the one that commits first counts.

    Args:
        state: The target, before they are added.
        fields: The field ids.
        through: The applied mark after the merge.
    """
    known: dict[int, tuple[str | None, Mark]] = dict.fromkeys(fields, (None, through))
    known |= {
        field: (column, min(since, through) if field in fields else since)
        for field, (column, since) in state.claims.items()
    }
    found = {str(field): [column, str(since)] for field, (column, since) in known.items()}
    return {FIELDS: json.dumps(found)}
