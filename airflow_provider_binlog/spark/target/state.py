"""State of a lake table: what its properties and its last commit say of it.

Its applied mark is the end of the log that its rows contain, and is committed with them.

A lake table is `live` if it has every row of its table, or the author chose to begin with the
changes. It is `loading` while it lacks rows that are not staged, and `stale` when a change of its
table cannot be followed. A reload ends both; until then merges leave the table as it is.
"""

from __future__ import annotations

import json
import re
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from airflow_provider_binlog.errors import MALFORMED, FormatError, MergeError, cause_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow_provider_binlog.schema import Action, TableId
    from airflow_provider_binlog.spark.plan.evolution import Evolution

_TEXT = re.compile(r"(\d{1,16})(?:\.(\d{1,16}))?", re.ASCII)


@dataclass(frozen=True, order=True)
class Mark:
    """Every manifest up to `sequence` is applied, and of the next one what is before a statement.

    Attributes:
        sequence: Number of the last manifest that is applied as a whole; 0 for none.
        statements: Number, from 1, of the statement of the next manifest that the next segment
            starts with: all rows before it are applied; 0 where nothing of that manifest is.
    """

    sequence: int = 0
    statements: int = 0

    def __str__(self) -> str:
        """Return `7`, or `7.2` before the second statement of manifest 8."""
        return f"{self.sequence}.{self.statements}" if self.statements else f"{self.sequence}"

    @classmethod
    def parse(cls, text: str) -> Mark:
        """Return the mark that `str` wrote.

        Raises:
            FormatError: It is none.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise FormatError("not an applied mark", text=text)
        return cls(int(match[1]), int(match[2] or 0))


NOTHING = Mark()
"""Nothing is applied."""


@dataclass(frozen=True)
class Contents:
    """Contents of a lake table, as the commit of its rows says.

    Attributes:
        mark: How much of the log.
        table: Id of the table whose rows it has; None if the commit does not say.
        snapshot: Id of the snapshot that it was last loaded from; empty if from none, None if the
            commit that says so is not there any more.
        copied: The format's own ids of columns that were copied from others of another type, as far
            as it has the copies; None if no commit says so.
    """

    mark: Mark
    table: str | None = None
    snapshot: str | None = ""
    copied: frozenset[str] | None = None


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

PROPERTY = "binlog.state"
"""Table property: whether the table is `live`, or its `Hold` as JSON, with the applied mark and the
snapshot that it holds at: after a restore it says nothing."""


@dataclass(frozen=True)
class Hold:
    """Why a table is not merged now; in its place None says that the table is merged.

    Attributes:
        state: `loading` or `stale`; see the module.
        reason: Why, and what to do, for people.
        position: Where in the log that happened; empty if nowhere in particular.
        since: When a merge first found it so, ISO 8601 in UTC; empty if that is not noted.
    """

    state: Literal["loading", "stale"]
    reason: str
    position: str = ""
    since: str = field(default="", compare=False)

    def to_json(self) -> dict[str, str]:
        """Return the hold as a value of JSON."""
        return {name: getattr(self, name) for name in ("state", "reason", "position", "since")}

    @classmethod
    def from_json(cls, value: Any) -> Hold:
        """Return the hold that `to_json` returned the value of.

        Raises:
            FormatError: There is no such state; and what else `MALFORMED` lists.
        """
        state = value["state"]
        if state not in ("loading", "stale"):
            raise FormatError("not the state of a table that is not merged", state=state)
        return cls(state, *(str(value[name]) for name in ("reason", "position", "since")))


WITHOUT_BEGINNING = Hold(
    "loading",
    "it has rows from before the staged log, which does not contain its creation: load it from a "
    "snapshot; or let it begin with the changes, with initial_load='changes_only'",
)
CHANGES_ONLY = (
    "it began with the changes that are staged (initial_load='changes_only'): it lacks the rows "
    "that did not change since"
)
"""What a live table lacks, if its author chose that."""


def live_property(lacks: str = "") -> dict[str, str]:
    """Return the property that says that a table is live, and what it lacks all the same."""
    return {PROPERTY: json.dumps({"state": "live", "reason": lacks})}


def hold_property(hold: Hold, mark: Mark | None, snapshot: str = "") -> dict[str, str]:
    """Return the property that says why a table is not merged.

    Args:
        hold: Why.
        mark: The applied mark that it holds at; None if at every one.
        snapshot: The snapshot that the table was last loaded from when it got that mark.
    """
    at = {"applied": None if mark is None else str(mark), "snapshot": snapshot}
    return {PROPERTY: json.dumps(hold.to_json() | at, ensure_ascii=False)}


def read_hold(properties: Mapping[str, str], mark: Mark, snapshot: str = "") -> Hold | None:
    """Return why a table with a mark, last loaded from a snapshot, is not merged; None if it is.

    It is merged where the property holds at another mark, or was set before that was loaded.
    """
    try:
        value = json.loads(properties[PROPERTY])
        hold = Hold.from_json(value)
        at = None if value["applied"] is None else (Mark.parse(value["applied"]), value["snapshot"])
    except MALFORMED:
        return None
    return hold if at in (None, (mark, snapshot)) else None


@dataclass(frozen=True)
class MissingFeatures:
    """Features of the format that a change of columns needs, and that the table must not get.

    Attributes:
        names: The features in words.
        concern: Whether an action needs one of them.
    """

    names: str
    concern: Callable[[Action], bool]


def _need_none(_: Evolution) -> None:
    return None


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
        blanks: Values that clear the properties of another source, before any are read.
        find_missing: Returns the features that the table would need for a change of its columns,
            and must not get, because its readers have to know them; None if there are none.
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
    find_missing: Callable[[Evolution], MissingFeatures | None] = field(
        default=_need_none, compare=False
    )

    @property
    def applied(self) -> Mark:
        """Applied mark: how much of the log it contains."""
        return self.contents.mark

    @property
    def loaded(self) -> str:
        """Id of the snapshot that it was last loaded from; empty if from none."""
        noted = self.contents.snapshot
        return self.properties.get(SNAPSHOT, "") if noted is None else noted

    @property
    def hold(self) -> Hold | None:
        """Why it is not merged; None if it is."""
        if self.unknown is not None:
            return Hold("loading", self.unknown)
        return read_hold(self.properties, self.applied, self.loaded)

    @property
    def lacks_rows(self) -> bool:
        """Whether it began with the changes, and was not loaded or truncated since."""
        began = live_property(CHANGES_ONLY)[PROPERTY]
        return self.properties.get(PROPERTY) == began and not self.loaded

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
        names = {id_: name for name, id_ in self.column_ids.items()}
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
        copied = read_copied(self.properties)
        return copied if self.contents.copied is None else copied & self.contents.copied

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
        """Columns and marks by field id: the property `FIELDS`, if it is that of the table.

        Raises:
            MergeError: It was edited.
        """
        same = self.table == self.properties.get(TABLE_ID)
        if self.table == UNSEEN:
            # A merge claimed the columns before it changed them. An earlier load, which the table
            # was restored to, may be that of another table.
            same = same and self.properties.get(SNAPSHOT) == self.loaded
        return read_fields(self.properties.get(FIELDS, "{}"), FIELDS) if same else {}


def read_copied(properties: Mapping[str, str]) -> frozenset[str]:
    """Return the ids that the property `COPIED` lists, of a table or of a commit."""
    return frozenset(filter(None, properties.get(COPIED, "").split(",")))


def read_contents(found: Contents | str) -> tuple[Contents, str | None]:
    """Return what a table contains, and why that is unknown."""
    return (found, None) if isinstance(found, Contents) else (Contents(NOTHING), found)


def rows_of_another(source: str) -> str:
    """Return why it is unknown what a table contains whose rows are those of another source."""
    return f"its rows are those of source {source!r}: reload it"


def read_key(value: str, name: str) -> tuple[str, ...]:
    """Return the names of columns in a JSON list.

    Raises:
        MergeError: It is none; `name` is that of the property.
    """
    with _naming(name):
        return tuple(map(_text, json.loads(value)))


def read_fields(value: str, name: str) -> dict[int, tuple[str | None, Mark]]:
    """Return the pairs of a JSON map from field ids to columns and applied marks.

    Raises:
        MergeError: It is none; `name` is that of the property.
    """
    with _naming(name):
        return {
            int(field): (None if column is None else _text(column), Mark.parse(since))
            for field, (column, since) in json.loads(value).items()
        }


@contextmanager
def _naming(name: str) -> Iterator[None]:
    try:
        yield
    except MALFORMED as error:
        raise MergeError(
            "a property of the lake table was edited: set it as it was, or drop the table, and "
            "load it from a snapshot",
            property=name,
            cause=cause_of(error),
        ) from error


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"not a text: {value!r}")
    return value
