"""The schemas that tables had over an interval of the log, one after the other.

Known are the schemas at the end, from the server's information_schema, and some at the beginning,
from what was staged last. From the end the statements are reversed, from the beginning applied. A
table keeps its schema under another name, and `CREATE TABLE ... LIKE` gives one the schema of
another: so tables are followed through the renames of gh-ost and pt-online-schema-change.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.partial_schemas import (
    CANDIDATES_MAX,
    alter,
    reverse,
)
from airflow_provider_binlog.sql.alterations import AddPrimaryKey
from airflow_provider_binlog.sql.ddl import (
    Altered,
    Created,
    DroppedDatabase,
    Renamed,
    TableChange,
)
from airflow_provider_binlog.sql.partial_schema import NO_COLUMNS, PartialSchema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow_provider_binlog.schema import TableName


class LoggedChange(NamedTuple):
    """What a statement of the log did to a table.

    Attributes:
        row: Its number among the rows of the range; those after the range follow all of them.
        file, offset: Where the statement is logged.
        change: What it did.
    """

    row: int
    file: str
    offset: int
    change: TableChange


class Lost(NamedTuple):
    """Why a table's schema cannot be determined from what came after."""

    reason: str


Backwards: TypeAlias = tuple[PartialSchema, ...] | Lost
"""The schemas that a table may have had; one of them it had."""


@dataclass
class _Epochs:
    """One table's schemas: one more than there are bounds.

    Attributes:
        bounds: The statements between them, by their rows.
        before: By what came after.
        after: By what came before; None where that is not known.
    """

    bounds: list[int] = field(default_factory=list)
    before: list[Backwards] = field(default_factory=list)
    after: list[PartialSchema | None] = field(default_factory=list)


class History:
    """What is known of each table between the statements that changed it."""

    def __init__(
        self,
        changes: Sequence[LoggedChange],
        names: Iterable[TableName],
        *,
        first: Mapping[TableName, PartialSchema],
        last: Callable[[TableName], Backwards],
        flavor: Flavor,
    ) -> None:
        """Follow the tables.

        Args:
            changes: In the order of the log.
            names: The tables whose schemas are needed.
            first: Schemas before all changes, where they are known.
            last: Returns the schema after all changes.
            flavor: Of the server.
        """
        self._names = {*names, *(name for each in changes for name in _named(each.change))}
        self._epochs: dict[TableName, _Epochs] = defaultdict(_Epochs)
        self._walk_back(changes, last, flavor)
        self._walk_on(changes, first, flavor)

    def bounds(self, name: TableName) -> list[int]:
        """Return the rows of the statements that changed a table, in order."""
        return self._epochs[name].bounds

    def at(self, name: TableName, row: int) -> tuple[Backwards, PartialSchema | None]:
        """Return what is known of a table at a row: by what came after, and by what came before."""
        epochs = self._epochs[name]
        index = bisect_right(epochs.bounds, row)
        return epochs.before[index], epochs.after[index]

    def _touched(self, change: TableChange) -> Iterator[TableName]:
        """Yield the tables that are not what they were: those that have a bound there."""
        if isinstance(change, DroppedDatabase):
            yield from sorted(name for name in self._names if name[0] == change.database)
        elif isinstance(change, Renamed):
            yield from (change.old, change.new)
        elif not (isinstance(change, Created) and change.optional):
            yield change.table

    def _walk_back(
        self,
        changes: Sequence[LoggedChange],
        last: Callable[[TableName], Backwards],
        flavor: Flavor,
    ) -> None:
        known = {name: last(name) for name in self._names}
        for logged in reversed(changes):
            change = logged.change
            for name in self._touched(change):
                epochs = self._epochs[name]
                epochs.bounds.insert(0, logged.row)
                epochs.before.insert(0, known[name])
            if isinstance(change, Altered):
                known[change.table] = _reversed(known[change.table], change, logged, flavor)
            elif isinstance(change, Renamed):
                known[change.old] = known[change.new]
                known[change.new] = _not_there(logged)
            elif isinstance(change, Created):
                after = known[change.table]
                if change.optional:
                    continue  # rows from before are those of the table that was there
                if change.like in known and isinstance(known[change.like], Lost):
                    known[change.like] = after
                known[change.table] = _not_there(logged)
            else:
                for name in self._touched(change):
                    known[name] = Lost(f"it was dropped at {logged.file}:{logged.offset}")
        for name in self._names:
            self._epochs[name].before.insert(0, known[name])

    def _walk_on(
        self,
        changes: Sequence[LoggedChange],
        first: Mapping[TableName, PartialSchema],
        flavor: Flavor,
    ) -> None:
        known: dict[TableName, PartialSchema | None] = {
            name: first.get(name) for name in self._names
        }
        for name in self._names:
            self._epochs[name].after.append(known[name])
        for logged in changes:
            change = logged.change
            if isinstance(change, Altered):
                schema = known[change.table]
                known[change.table] = None if schema is None else alter(schema, change.alterations)
            elif isinstance(change, Renamed):
                known[change.new], known[change.old] = known[change.old], None
            elif isinstance(change, Created):
                if not change.optional:
                    known[change.table] = _created(change, known, flavor)
            else:
                known.update(dict.fromkeys(self._touched(change)))
            for name in self._touched(change):
                self._epochs[name].after.append(known[name])


def names_of(change: TableChange) -> tuple[TableName, ...]:
    """Return the tables whose past a statement may have changed; of a database, (database, "")."""
    if isinstance(change, DroppedDatabase):
        return ((change.database, ""),)
    if isinstance(change, Renamed):
        return (change.old, change.new)
    return (change.table,)


def _named(change: TableChange) -> tuple[TableName, ...]:
    names = () if isinstance(change, DroppedDatabase) else names_of(change)
    like = change.like if isinstance(change, Created) else None
    return names if like is None else (*names, like)


def _not_there(logged: LoggedChange) -> Lost:
    return Lost(f"by the statement at {logged.file}:{logged.offset} there was none of its name")


def _reversed(after: Backwards, change: Altered, logged: LoggedChange, flavor: Flavor) -> Backwards:
    if isinstance(after, Lost):
        return after
    where = f"{logged.file}:{logged.offset}"
    found: dict[PartialSchema, None] = {}
    for schema in after:
        previous = reverse(schema, change.alterations, flavor)
        if previous is None:
            return Lost(f"what the statement at {where} changed is not clear")
        found.update(dict.fromkeys(previous))
        if len(found) > CANDIDATES_MAX:
            return Lost(f"it may have had too many schemas before the statement at {where}")
    if not found:
        return Lost(f"the statement at {where} cannot have led to the table as it is now")
    return tuple(found)


def _created(
    change: Created, known: Mapping[TableName, PartialSchema | None], flavor: Flavor
) -> PartialSchema | None:
    if change.like is not None:
        return known.get(change.like)
    if change.elements is None:
        return None
    keyed = any(isinstance(each, AddPrimaryKey) for each in change.elements)
    # Where there is no primary key, MySQL may add one of its own: a column that the text lacks.
    return alter(NO_COLUMNS, change.elements) if keyed or flavor is Flavor.MARIADB else None
