"""State of a lake table: what its properties and its last commit say of it.

A lake table is `live` if it has every row of its table, or the author chose to begin with the
changes. It is `loading` while it lacks rows that are not staged, and `stale` when a change of its
table cannot be followed. A reload ends both; until then merges leave the table as it is.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TypeAlias

from airflow_provider_binlog.errors import MALFORMED, FormatError, MergeError, cause_of
from airflow_provider_binlog.schema import Action, TableId
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.target.modes import CHANGELOG, CURRENT, KINDS, MODE, TableMode
from airflow_provider_binlog.stored_json import from_json

_TEXT = re.compile(r"(\d{1,16})(?:\.(\d{1,16}))?", re.ASCII)
_END_OF_TIME = 253_402_300_800_000  # The year 10000; other writers may note any number.


@dataclass(frozen=True, order=True)
class Mark:
    """The applied mark: the end of the log that a lake table contains.

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
class ForeignWrite:
    """A commit that changed rows, and is no merge's; str() says so, and what to do, for people.

    Attributes:
        version: Delta's version, or the id of Iceberg's snapshot.
        operation: Its name in the format's history.
        user: Who committed; the engine where the commit names nobody.
        time: When, ISO 8601 in UTC; empty if the commit does not say.
    """

    version: int
    operation: str
    user: str = ""
    time: str = ""

    @classmethod
    def of(cls, version: int, operation: object, user: object, time: object) -> ForeignWrite:
        """Return a commit by what it says of itself; its time is in milliseconds since 1970."""
        iso = ""
        if isinstance(time, int) and 0 <= time < _END_OF_TIME:
            iso = datetime.fromtimestamp(time // 1000, UTC).isoformat()
        return cls(version, str(operation or "unknown"), str(user or ""), iso)

    def __str__(self) -> str:
        """Return what happened, and what ends it."""
        said = [self.operation, self.user and f"by {self.user}", self.time and f"at {self.time}"]
        return (
            f"version {self.version} of the lake table changed rows, and is no merge's "
            f"({' '.join(filter(None, said))}): they may differ from the source's until it is "
            "reloaded"
        )


def read_foreign_write(value: object) -> ForeignWrite | None:
    """Return what a merge noted, by its value of JSON; None if that is null."""
    return None if value is None else from_json(ForeignWrite, value)


@dataclass(frozen=True)
class Contents:
    """Contents of a lake table, as the commit of its rows says.

    Attributes:
        mark: How much of the log.
        table: Id of the table whose rows it has; None if the commit does not say.
        snapshot: Id of the snapshot that it was last loaded from; empty if from none, None if the
            commit that says so is not there any more.
        foreign_write: The first of others since then; those that a merge noted are kept until that
            replaces all rows. None if there is none.
    """

    mark: Mark
    table: str | None = None
    snapshot: str | None = ""
    foreign_write: ForeignWrite | None = None


KEY = "binlog.key"
"""Table property: the key columns rows are merged by, as a JSON list; empty if it has none."""

TABLE_ID = "binlog.table_id"
"""Table property: the id of the table whose rows it has."""

FIELDS = "binlog.fields"
"""Table property: `Claims` as a JSON map."""

Claims: TypeAlias = dict[int, tuple[str | None, Mark]]
"""By field id of the table: the format's own id of the column (its name if it has none, None while
it is being added), and from which applied mark on older rows hold its initial default."""

UNSEEN = "unseen"
"""In place of a table id: the table was loaded from a snapshot, and the log has not mentioned it
since. It is the table that its name stands for where the log first mentions that."""

SNAPSHOT = "binlog.snapshot"
"""Table property: the id of the snapshot that the table was last loaded from; where the commit of
the rows says it too, that counts."""

ENDED = "binlog.ended"
"""Table property: the applied mark with which the name ceased to stand for a table, by DROP or
RENAME. It holds only while the applied mark is still that one."""

PROPERTY = "binlog.state"
"""Table property: whether the table is `live`, or its `Hold` as JSON, with the applied mark and the
snapshot that it holds at: after a restore it says nothing."""


@dataclass(frozen=True)
class Hold:
    """State of a table that is not merged now, and the reason; None in its place: it is merged.

    Attributes:
        state: `loading` or `stale`; see the module.
        reason: Why, and what to do, for people.
        position: Where in the log that happened; empty if nowhere in particular.
        since: When a merge first found it so, ISO 8601 in UTC; empty if that is not noted.
    """

    state: str
    reason: str
    position: str = ""
    since: str = field(default="", compare=False)


WITHOUT_BEGINNING = Hold(
    "loading",
    "it has rows from before the staged log, which does not contain its creation: load it from a "
    "snapshot; or let it begin with the changes, with initial_load='changes_only'; or leave it "
    "out, if it is a sequence or WITH SYSTEM VERSIONING, which no snapshot reads",
)
CHANGES_ONLY = (
    "it began with the changes that are staged (initial_load='changes_only'): it lacks the rows "
    "that did not change since"
)
"""Rows that a live table lacks, if its author chose that."""


def live_property(lacks: str = "") -> dict[str, str]:
    """Return the property that says that a table is live, and what it lacks all the same."""
    return {PROPERTY: json.dumps({"state": "live", "reason": lacks})}


def hold_property(hold: Hold, mark: Mark | None, snapshot: str = "") -> dict[str, str]:
    """Return the property of a hold at a mark (None: at every one), loaded from a snapshot."""
    at = {"applied": None if mark is None else str(mark), "snapshot": snapshot}
    return {PROPERTY: json.dumps(asdict(hold) | at, ensure_ascii=False)}


def read_hold(properties: Mapping[str, str], mark: Mark, snapshot: str = "") -> Hold | None:
    """Return why a table with a mark, last loaded from a snapshot, is not merged; None if it is.

    It is merged where the property holds at another mark, or was set before that was loaded.
    """
    try:
        value = json.loads(properties[PROPERTY])
        applied, loaded = value.pop("applied"), value.pop("snapshot")
        at = None if applied is None else (Mark.parse(applied), loaded)
        hold = from_json(Hold, value)
    except MALFORMED:
        return None
    return hold if at in (None, (mark, snapshot)) else None


@dataclass(frozen=True)
class Barrier:
    """Reason why a lake table cannot follow a change of its columns, and which actions are it."""

    reason: str
    concerns: Callable[[Action], bool]


def _no_barrier(_: Evolution) -> None:
    return None


@dataclass(frozen=True)
class Comments:
    """The comment of a table, and those of columns by name; empty texts for none.

    Attributes:
        table: None where it is not known.
        columns: Only those that are known.
    """

    table: str | None = None
    columns: Mapping[str, str] = field(default_factory=dict)

    def without(self, held: Comments) -> Comments:
        """Return those of these that a table which holds others lacks."""
        missing = {
            name: text for name, text in self.columns.items() if held.columns.get(name, "") != text
        }
        is_held = self.table is None or self.table == (held.table or "")
        return Comments(None if is_held else self.table, missing)


@dataclass(frozen=True)
class TargetState:
    """A target table at one moment.

    Attributes:
        columns: Name and Spark type of each column, in order.
        column_ids: The format's own id of each column, by name; the name where it has none.
        properties: The table's properties.
        contents: What it contains; nothing where that is unknown.
        files: How many data files it has.
        bytes: Their size.
        is_empty: Whether it certainly has no rows.
        snapshot: The format's number of this state; None for a table never written to.
        unknown: Why its contents cannot be determined; None if they were.
        fence: The number by which the format orders the merges of a source, if it does.
        blanks: Values that clear the properties of another source, before any are read.
        find_barrier: Returns why the table cannot follow a change of its columns; None if it can.
        comments: Its comment, and those of its columns.
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
    find_barrier: Callable[[Evolution], Barrier | None] = field(default=_no_barrier, compare=False)
    comments: Comments = field(default_factory=Comments)

    @property
    def applied(self) -> Mark:
        """The end of the log that it contains."""
        return self.contents.mark

    @property
    def loaded(self) -> str:
        """Id of the snapshot that it was last loaded from; empty if from none."""
        noted = self.contents.snapshot
        return self.properties.get(SNAPSHOT, "") if noted is None else noted

    @property
    def hold(self) -> Hold | None:
        """Its hold; None if it is merged."""
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
        """The columns that rows are merged by; empty if there are none; see `read_key`."""
        if KEY not in self.properties:
            raise MergeError("a property of the lake table is missing", property=KEY)
        return read_key(self.properties[KEY])

    @property
    def mode(self) -> TableMode:
        """The mode in which its rows are."""
        return read_mode(self.properties)

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
    def lost(self) -> frozenset[int]:
        """Fields whose columns somebody dropped."""
        # By their names, if they got ids a moment ago.
        present = {*self.column_ids.values(), *self.columns, None}
        return frozenset(
            field for field, (column, _) in self.claims.items() if column not in present
        )

    @property
    def claims(self) -> Claims:
        """The property `FIELDS`, if it is that of the table; see `read_key`."""
        same = self.table == self.properties.get(TABLE_ID)
        if self.table == UNSEEN:
            # A merge claimed the columns before it changed them. An earlier load, which the table
            # was restored to, may be that of another table.
            same = same and self.properties.get(SNAPSHOT) == self.loaded
        return read_fields(self.properties.get(FIELDS, "{}")) if same else {}


def read_contents(contents: Contents | str) -> tuple[Contents, str | None]:
    """Return what a table contains, and why that is unknown."""
    if isinstance(contents, Contents):
        return contents, None
    return Contents(NOTHING), contents


def rows_of_another(source: str) -> str:
    """Return why it is unknown what a table contains whose rows are those of another source."""
    return f"its rows are those of source {source!r}: reload it"


def read_mode(properties: Mapping[str, str]) -> TableMode:
    """Return the mode that a table's properties say; raise MergeError if it was edited."""
    if not (text := properties.get(MODE)):
        return CHANGELOG if properties.get(KEY) == "[]" else CURRENT
    with _naming_edited(MODE):
        mode = from_json(TableMode, json.loads(text))
        KINDS.index(mode.kind)
    return mode


def read_key(value: str) -> tuple[str, ...]:
    """Return the columns that the property `KEY` lists; raise MergeError if it was edited."""
    with _naming_edited(KEY):
        return from_json(tuple[str, ...], json.loads(value))


def read_fields(value: str) -> Claims:
    """Return what the property `FIELDS` says; see `read_key`."""
    with _naming_edited(FIELDS):
        pairs = from_json(dict[str, tuple[str | None, str]], json.loads(value))
        return {int(field): (column, Mark.parse(since)) for field, (column, since) in pairs.items()}


@contextmanager
def _naming_edited(name: str) -> Iterator[None]:
    """Raise a MergeError where a property of the lake table is not as a merge wrote it."""
    try:
        yield
    except MALFORMED as error:
        raise MergeError(
            "a property of the lake table was edited: set it as it was, or drop the table, and "
            "load it from a snapshot",
            property=name,
            cause=cause_of(error),
        ) from error
