"""State of a lake table: what its properties and its last commit say of it.

A lake table is `live` if it has every row of its table, or the author chose to begin with the
changes. It is `loading` while it lacks rows that are not staged, and `stale` when a change of its
table cannot be followed. A reload ends both; until then merges leave the table as it is.
"""

from __future__ import annotations

import json
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from airflow_provider_binlog.errors import MALFORMED, FormatError, MergeError, cause_of
from airflow_provider_binlog.spark.target.mark import NOTHING, Contents, Mark

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from airflow_provider_binlog.schema import Action, TableId
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

PROPERTY = "binlog.state"
"""Table property: `LakeState` as JSON. One that holds at a mark is believed only while that is the
table's: after a restore it says nothing."""

StateName: TypeAlias = Literal["loading", "live", "stale"]


@dataclass(frozen=True)
class LakeState:
    """The state of a lake table.

    Attributes:
        name: See the module.
        reason: Why it is `loading` or `stale`; for people.
        position: Where in the log that happened; empty if nowhere in particular.
        mark: The applied mark that it holds at; None if at every one.
        snapshot: The snapshot that the table was last loaded from when it got that mark.
        since: When a merge first found it so, ISO 8601 in UTC; empty if that is not noted.
    """

    name: StateName
    reason: str = ""
    position: str = ""
    mark: Mark | None = None
    snapshot: str = ""
    since: str = field(default="", compare=False)

    @property
    def is_merged(self) -> bool:
        """Whether merges change the table."""
        return self.name == "live"

    def at(self, mark: Mark, snapshot: str = "") -> LakeState:
        """Return the state as one that holds at a mark, once loaded from a snapshot."""
        return replace(self, mark=mark, snapshot=snapshot)

    def continues(self, before: LakeState) -> bool:
        """Whether a table was in this state before, for the same reason."""
        own, other = ((each.name, each.reason, each.position) for each in (self, before))
        return own == other


LIVE = LakeState("live")
CHANGES_ONLY = LakeState(
    "live",
    "it began with the changes that are staged (initial_load='changes_only'): it lacks the rows "
    "that did not change since",
)
WITHOUT_BEGINNING = LakeState(
    "loading",
    "it has rows from before the staged log, which does not contain its creation: load it from a "
    "snapshot; or let it begin with the changes, with initial_load='changes_only'",
)


def state_property(state: LakeState) -> dict[str, str]:
    """Return the property that says so."""
    return {PROPERTY: json.dumps(state_to_json(state), ensure_ascii=False)}


def read_state(properties: Mapping[str, str], mark: Mark, snapshot: str = "") -> LakeState:
    """Return the state of a table with a mark, last loaded from a snapshot.

    `live` where its property holds at another mark, or was set before that was loaded; so is a
    table that began with changes, once it is loaded.
    """
    try:
        state = state_from_json(json.loads(properties[PROPERTY]))
    except MALFORMED:
        return LIVE
    holds = state.mark is None or (state.mark, state.snapshot) == (mark, snapshot)
    holds = holds and (state.name != "live" or state.snapshot == snapshot)
    return state if holds else LIVE


def state_to_json(state: LakeState) -> dict[str, str | None]:
    """Return a state as a value of JSON."""
    return {
        "state": state.name,
        "reason": state.reason,
        "position": state.position,
        "applied": None if state.mark is None else str(state.mark),
        "snapshot": state.snapshot,
        "since": state.since,
    }


def state_from_json(value: Any) -> LakeState:
    """Return the state that `state_to_json` returned the value of.

    Raises:
        FormatError: There is no such state; and what else `MALFORMED` lists.
    """
    name, applied = value["state"], value["applied"]
    if name not in get_args(StateName):
        raise FormatError("no state of a lake table", state=name)
    mark = None if applied is None else Mark.parse(applied)
    reason, position, snapshot = value["reason"], value["position"], value["snapshot"]
    return LakeState(name, str(reason), str(position), mark, str(snapshot), str(value["since"]))


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
        blanks: What the properties of another source are set to, before any are believed.
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
