"""Generated tables, and random statements that change them as a whole."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.names import quote_identifier as quote
from tests.oracle.charsets import repertoires
from tests.oracle.kinds import Kind, as_selected, random_kind
from tests.oracle.tables import BASE, GENERATED, KEY, KEY_OF, Column, Effect, Past, Table

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.oracle.session import Session
    from tests.oracle.settings import Settings
    from tests.services.servers import Server

# More than a machine word has bits, so that images have several bytes of them.
_COLUMNS = {"narrow": 3, "wide": 70}
_ADDED_MAX = 14
_CHARSET = re.compile(r"CHARACTER SET (?!binary)\w+")
_TEXTS = re.compile(r"^(tiny|medium|long)?text(?= CHARACTER SET (?!binary))")
# Even ASCII is not of one byte in them.
_WIDE = ("ucs2", "utf16", "utf16le", "utf32")
# How often each, of all. Where the log leaves out what a column was, some of them make it unknown.
_WEIGHTS = {
    "truncate": 15,
    "add": 20,
    "drop": 12,
    "rename": 18,
    "move": 12,
    "widen": 12,
    "name": 8,
    "remake": 5,
    "key": 6,
    "convert": 6,
}
_RARE = frozenset({"drop", "move", "remake", "key", "convert"})
_RARELY = 4


class Ddl:
    """Makes tables and changes them.

    Attributes:
        past: What its statements did.
        tables: All that there are.
    """

    def __init__(
        self, server: Server, settings: Settings, random: Random, session: Session
    ) -> None:
        self.past = Past()
        self.tables: list[Table] = []
        self._settings = settings
        self._random = random
        self._session = session
        self._known = repertoires(server)
        self._names = 0
        is_full = settings.metadata == "FULL"
        self._weights = {
            name: weight / (1 if is_full or name not in _RARE else _RARELY)
            for name, weight in _WEIGHTS.items()
        }

    def create(self, first_name: str) -> None:
        """Make a table."""
        table = Table(first_name, first_name, KEY_OF[first_name], {first_name})
        for each in KEY:
            self.past.note(each)
        self._make(table)
        self.tables.append(table)

    def alter(self, table: Table, others: list[Table]) -> None:
        """Change a table, or try to; `others` are those that it may change names with."""
        chosen = self._random.choices(list(self._weights), list(self._weights.values()))[0]
        own: dict[str, Callable[[Table], None]] = {
            "truncate": self._truncate,
            "add": self._add,
            "drop": self._drop,
            "rename": self._rename,
            "move": self._move,
            "widen": self._widen,
            "remake": self._remake,
            "key": self._key,
            "convert": self._convert,
        }
        if chosen == "name":
            self._name(table, others)
        else:
            own[chosen](table)

    # ------------------------------------------------------------------ making

    def _make(self, table: Table) -> None:
        random = self._random
        count = _COLUMNS.get(table.first_name) or random.randint(6, 11)
        columns = [self._column() for _ in range(count)]
        declared = [f"`{each.name}` {each.declared}" for each in columns]
        declared += [f"{each.name} {each.declared}" for each in KEY]
        if table.first_name == "generated":
            columns.append(Column("base", BASE, None, "int NULL"))
            table.generated = tuple(GENERATED)
            declared += ["base int NULL", *(f"{g} {sql}" for g, sql in GENERATED.items())]
            for each in GENERATED:
                self.past.note(Column(each, BASE, None, ""))
        random.shuffle(declared)
        if table.key:
            kind = "UNIQUE" if table.first_name == "unique" else "PRIMARY"
            declared.append(f"{kind} KEY ({', '.join(table.key)})")
        self._session.execute(f"CREATE TABLE {quote(table.name)} ({', '.join(declared)})")
        self.past.effects.append(
            Effect("CREATE TABLE", (table.name,), key=table.key, truncated=True)
        )
        table.columns = columns
        for column in columns:
            self.past.note(column)

    def _column(self) -> Column:
        random = self._random
        kind = random_kind(random, self._settings.server, self._known)
        self._names += 1
        # Names that look like something else, and no two alike.
        name = random.choice(["c", "from", "ü", "a b", "x.y", "@1"]) + str(self._names)
        declared = kind.sql
        if kind.default is not None and random.random() < 0.6:
            null = "NULL" if random.random() < 0.5 or " NULL" in kind.sql else "NOT NULL"
            declared = f"{kind.sql.removesuffix(' NULL')} {null} DEFAULT {kind.default}"
        elif not kind.sql.endswith(" NULL"):
            declared = f"{kind.sql} NULL"
        if random.random() < 0.1:
            declared += " INVISIBLE"
        return Column(name, kind, self._filled(kind, declared), declared)

    def _filled(self, kind: Kind, declared: str) -> Any:
        """Return what a row has in such a column that nobody gave a value."""
        execute = self._session.execute
        execute(f"CREATE TEMPORARY TABLE only_one (visible int, v {declared})")
        execute("INSERT INTO only_one (visible) VALUES (1)")
        rows = execute(f"SELECT {kind.select.format('v')} FROM only_one")
        execute("DROP TEMPORARY TABLE only_one")
        return as_selected(rows[0][0])

    # ------------------------------------------------------------------ changing

    def _done(self, sql: str, effect: Effect) -> bool:
        if self._session.attempt(sql):
            self.past.effects.append(effect)
            return True
        return False

    def _altered(self, table: Table, what: str, **effect: Any) -> bool:
        sql = f"ALTER TABLE {quote(table.name)} {what}"
        return self._done(sql, Effect("ALTER TABLE", (table.name,), **effect))

    def _position(self, table: Table) -> str:
        random = self._random
        beside = random.choice(table.columns).name
        return random.choice(["", " FIRST", " AFTER id", f" AFTER `{beside}`"])

    def _truncate(self, table: Table) -> None:
        sql = f"TRUNCATE TABLE {quote(table.name)}"
        self._done(sql, Effect("TRUNCATE TABLE", (table.name,), truncated=True))

    def _add(self, table: Table) -> None:
        if len(table.columns) >= max(_ADDED_MAX, _COLUMNS.get(table.first_name, 0)):
            return
        added = self._column()
        what = f"ADD COLUMN `{added.name}` {added.declared}{self._position(table)}"
        if self._altered(table, what, added={added.name: added.filled}):
            table.columns.append(added)
            self.past.note(added)

    def _drop(self, table: Table) -> None:
        dropped = self._random.choice(table.columns)
        if len(table.columns) > 3 and self._altered(
            table, f"DROP COLUMN `{dropped.name}`", dropped=dropped.name
        ):
            table.columns.remove(dropped)

    def _rename(self, table: Table) -> None:
        column, position = self._random.choice(table.columns), self._position(table)
        old = column.name
        self._names += 1
        new = f"renamed{self._names}"
        what = f"RENAME COLUMN `{old}` TO `{new}`"
        if self._random.random() < 0.5 and f"`{old}`" not in position:
            what = f"CHANGE `{old}` `{new}` {column.declared}{position}"
        if self._altered(table, what, renamed=(old, new)):
            column.name = new
            self.past.note(column)

    def _move(self, table: Table) -> None:
        moved, position = self._random.choice(table.columns), self._position(table)
        if position not in ("", f" AFTER `{moved.name}`"):
            self._altered(table, f"MODIFY `{moved.name}` {moved.declared}{position}")

    def _widen(self, table: Table) -> None:
        column = self._random.choice(table.columns)
        wider = column.kind.wider
        if wider is None:
            return
        declared = column.declared.replace(column.kind.sql, wider)
        if self._altered(table, f"MODIFY `{column.name}` {declared}"):
            column.kind = replace(column.kind, sql=wider, wider=None)
            column.declared = declared
            self.past.note(column)

    def _name(self, table: Table, others: list[Table]) -> None:
        """Give a table another name, its first one again, or that of another table."""
        random, old = self._random, table.name
        other = random.choice(others)
        self._names += 1
        new = f"renamed {self._names}"
        if table.name != table.first_name and table.first_name not in {
            each.name for each in self.tables
        }:
            new = table.first_name
        elif other is not table and random.random() < 0.3:
            self._swap(table, other, new)
            return
        verb = random.choice(["RENAME TABLE {0} TO {1}", "ALTER TABLE {0} RENAME TO {1}"])
        kind = " ".join(verb.split()[:2])
        if self._done(
            verb.format(quote(old), quote(new)), Effect(kind, (old, new), moves=((old, new),))
        ):
            table.name = new
            table.names.add(new)

    def _swap(self, one: Table, other: Table, between: str) -> None:
        moves = ((one.name, between), (other.name, one.name), (between, other.name))
        listed = ", ".join(f"{quote(old)} TO {quote(new)}" for old, new in moves)
        names = tuple(name for move in moves for name in move)
        if self._done(f"RENAME TABLE {listed}", Effect("RENAME TABLE", names, moves=moves)):
            one.name, other.name = other.name, one.name
            # What is not known of one is not known of the other.
            one.names |= other.names | {between}
            other.names = one.names

    def _remake(self, table: Table) -> None:
        """Drop a table and make another one of its name, with other columns."""
        if self._done(
            f"DROP TABLE {quote(table.name)}", Effect("DROP TABLE", (table.name,), truncated=True)
        ):
            self._make(table)

    def _key(self, table: Table) -> None:
        """Take the primary key away, or give the table one, or another one."""
        if table.first_name == "unique":
            return
        key = self._random.choice([("id",), ("part", "id"), ("id", "part"), ()])
        changes = ["DROP PRIMARY KEY"] if table.key else []
        if key:
            changes.append(f"ADD PRIMARY KEY ({', '.join(key)})")
        if key != table.key and self._altered(table, ", ".join(changes), key=key):
            table.key = key

    def _convert(self, table: Table) -> None:
        if any(_is_garbled(each.kind.sql) for each in table.columns):
            return
        # To a set that holds every text: nothing is rewritten.
        if not self._altered(table, "CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin"):
            return
        for column in table.columns:
            column.declared = _converted(column.declared)
            kind = column.kind
            wider = kind.wider and _converted(kind.wider)
            column.kind = replace(kind, sql=_converted(kind.sql), wider=wider)
            self.past.note(column)


def _is_garbled(declared: str) -> bool:
    """Whether servers lose values when they convert them: they take their bytes for those in UTF-8.

    So they rewrite the rows, and do not log it.
    """
    if not declared.startswith(("enum(", "set(")) or "CHARACTER SET utf8mb4" in declared:
        return False
    return not declared.isascii() or declared.endswith(_WIDE)


def _converted(declared: str) -> str:
    """Return a declaration in utf8mb4, of a type that no text is too long for."""
    declared = _TEXTS.sub("longtext", declared)
    return _CHARSET.sub("CHARACTER SET utf8mb4", declared)
