"""Under which names a table's rows were logged: RENAME TABLE, as gh-ost and others end with it.

    RENAME TABLE orders TO _orders_del, _orders_gho TO orders

Behind it `orders` holds what was logged as changes of `_orders_gho`. If that table was captured
since it was made, all its rows are in the log, and the lake's table becomes them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from airflow_provider_binlog.spark.plan.statements import (
    Place,
    TableFate,
    TableName,
    empties,
    names,
    statements_of,
    unquoted,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from airflow_provider_binlog.manifest import Manifest, Statement

RENAMING = "RENAME TABLE"
_DROPPING = ("DROP TABLE", "DROP DATABASE")
_PERHAPS = re.compile(r"\bTABLE\s+IF\s+NOT\s+EXISTS\b", re.IGNORECASE)


@dataclass(frozen=True)
class Stretch:
    """How long a table's rows were logged under one name.

    Attributes:
        name: Database and table.
        since: The place from which on it had the name; None for the range's begin.
        before: The place where it lost the name; None for the range's end.
    """

    name: TableName
    since: Place | None
    before: Place | None

    def may_hold(self, first: Place, last: Place) -> bool:
        """Whether a place from `first` to `last` may lie in it."""
        return (self.since is None or last >= self.since) and (
            self.before is None or first < self.before
        )

    def is_whole(self, first: Place, last: Place) -> bool:
        """Whether all places from `first` to `last` lie in it."""
        return (self.since is None or first >= self.since) and (
            self.before is None or last < self.before
        )


@dataclass(frozen=True)
class History:
    """What a name stands for at the range's end, and what that was called before.

    Attributes:
        stretches: Its names, the first one first.
        complete: Whether the first stretch begins with an empty table: the log holds every row.
        gone: Whether the name stands for nothing: its table was renamed away. The history is that
            of this table then.
        renamed: The last RENAME TABLE that names it.
        lost: A name under which its rows were not captured; None if there is none.
    """

    stretches: tuple[Stretch, ...]
    complete: bool
    gone: bool
    renamed: Statement
    lost: TableName | None = None

    @property
    def came_from_elsewhere(self) -> bool:
        """Whether the table had another name before."""
        return len(self.stretches) > 1


def maybe_history(name: TableName, manifests: Sequence[Manifest]) -> History | None:
    """Return under which names the rows of a table were logged; None if none was renamed to it."""
    renames = [each for _, each in statements_of(name, manifests) if each.kind == RENAMING]
    if not renames:
        return None
    stretches: list[Stretch] = []
    complete = gone = perhaps_made = False
    current, before = name, None
    for place, statement in _backwards(manifests):
        if not names(statement, current):
            continue
        origin = origin_of(current, statement) if statement.kind == RENAMING else current
        if origin is None and not perhaps_made and before is None:
            # From here on the name is that of no table.
            gone, before = True, place
        elif origin is None or begins(current, statement):
            complete = origin is not None or perhaps_made
            stretches.append(Stretch(current, place, before))
            break
        elif origin != current:
            stretches.append(Stretch(current, place, before))
            current, before, perhaps_made = origin, place, False
        else:
            perhaps_made = perhaps_made or statement.kind == "CREATE TABLE"
    else:
        stretches.append(Stretch(current, None, before))
    stretches.reverse()
    lost = next((each.name for each in stretches if not _is_captured(each, manifests)), None)
    return History(tuple(stretches), complete and lost is None, gone, renames[-1], lost)


def read_history(history: History, manifests: Sequence[Manifest]) -> TableFate:
    """Return what became of a renamed table whose history is complete."""
    alterations = tuple(
        statement
        for stretch in history.stretches
        for place, statement in statements_of(stretch.name, manifests)
        if statement.kind == "ALTER TABLE" and stretch.is_whole(place, place)
    )
    emptied_at = history.stretches[0].since
    return TableFate(emptied_at, dropped=False, erasures=(), alterations=alterations)


def _backwards(manifests: Sequence[Manifest]) -> Iterator[tuple[Place, Statement]]:
    for manifest in reversed(manifests):
        for statement in sorted(manifest.statements, key=lambda each: -each.row):
            yield (manifest.sequence, statement.row), statement


def origin_of(name: TableName, statement: Statement) -> TableName | None:
    """Return how the table was called before a RENAME TABLE; None if the name stands for none."""
    pairs = list(zip(statement.tables[::2], statement.tables[1::2], strict=True))
    for old, new in reversed(pairs):
        if new == name:
            name = old
        elif old == name:
            return None
    return name


def begins(name: TableName, statement: Statement) -> bool:
    """Whether the name's table is empty behind a statement, or made by it."""
    if empties(statement) or statement.kind.startswith(_DROPPING):
        return True
    makes = statement.kind == "CREATE TABLE" and statement.tables[0] == name
    return makes and not _PERHAPS.search(unquoted(statement.text))


def _is_captured(stretch: Stretch, manifests: Sequence[Manifest]) -> bool:
    """Whether every manifest that the stretch reaches into was to hold the name's rows."""
    name = ".".join(stretch.name)
    return all(
        any(fnmatchcase(name, glob) for glob in manifest.include)
        and not any(fnmatchcase(name, glob) for glob in manifest.exclude)
        for manifest in manifests
        if (stretch.since is None or manifest.sequence >= stretch.since[0])
        and (stretch.before is None or manifest.sequence <= stretch.before[0])
    )
