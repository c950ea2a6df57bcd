"""Generated tables and writes: random columns, values, sessions and DDL; a seed gives the same."""

from __future__ import annotations

import contextlib
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING, Any

import pymysql

from tests.fixtures.mysql import connect
from tests.oracle.kinds import Kind, as_selected, random_kind
from tests.oracle.settings import MIXED, Settings

if TYPE_CHECKING:
    from tests.services.servers import Server

DATABASE = "oracle"

# Values that do not fit, keys that exist, documents that are none: the server refuses them, and
# nothing is logged.
_EXPECTED = frozenset(
    {
        *(1022, 1048, 1054, 1060, 1062, 1118, 1197, 1264, 1265, 1292, 1305, 1364, 1366, 1406, 1411),
        *(1690, 1901, 3037, 3108, 3140, 3141, 3143, 3144, 3146, 3149, 3150, 3548, 3616, 3903, 4078),
    }
)
_PER_TABLE_MAX = 14


@dataclass
class Column:
    """A column as it is now.

    Attributes:
        name: Names are used once in a table.
        kind: Its type.
        filled: What a row has that was there before the column, or leaves it out, as selected.
        declared: Its declaration behind the name.
    """

    name: str
    kind: Kind
    filled: Any
    declared: str


@dataclass(frozen=True)
class Effect:
    """What a statement does to a table as a whole, without row events."""

    emptied: bool = False
    added: dict[str, Any] = field(default_factory=dict)
    dropped: str | None = None
    renamed: tuple[str, str] | None = None


@dataclass
class Table:
    """A table as it is now.

    Attributes:
        name: Its name.
        key: Names of the primary key's columns; none: no key.
        columns: All but the key's and the generated ones, in any order.
        generated: Names of generated columns.
        effects: Of its statements, in order.
        kinds: Of every column that it ever had.
        filled: Of every column that it ever had; see `Column.filled`.
    """

    name: str
    key: tuple[str, ...]
    columns: list[Column] = field(default_factory=list)
    generated: tuple[str, ...] = ()
    effects: list[Effect] = field(default_factory=list)
    kinds: dict[str, Kind] = field(default_factory=dict)
    filled: dict[str, Any] = field(default_factory=dict)

    def note(self, column: Column) -> None:
        """Remember a column for good."""
        self.kinds[column.name] = column.kind
        self.filled[column.name] = column.filled


_KEYS = {
    "id": Kind("int", str, show=int, select="{0}"),
    "part": Kind("varchar(20) CHARACTER SET latin1 COLLATE latin1_bin", str),
}
_BASE = Kind("int", lambda random: str(random.randint(-99, 99)), select="{0}", show=int)
_GENERATED = {
    "twice": "int GENERATED ALWAYS AS (base * 2) VIRTUAL",
    "thrice": "bigint GENERATED ALWAYS AS (base * 3) STORED",
}
_TABLES = {
    "keyed": ("id",),
    "generated": ("id",),
    "a/b `table`": ("id",),
    "pairs": ("part", "id"),
    "keyless": (),
    "narrow": ("id",),
}


class Workload:
    """One session's writes to a database of its own.

    Attributes:
        tables: By name.
        done: Statements by kind, and those that the server refused.
    """

    def __init__(self, server: Server, settings: Settings, seed: int) -> None:
        self.tables: dict[str, Table] = {}
        self.done: Counter[str] = Counter()
        self._random = Random(seed)
        self._settings = settings
        self._names = 0
        self._logs_all = settings.is_mysql or settings.image == "FULL"
        self._connection = connect(server, init_command="SET time_zone = '+00:00', sql_mode = ''")

    def close(self) -> None:
        """End the session."""
        self._connection.close()

    def create(self) -> None:
        """Make the database and its tables anew."""
        self._execute(f"DROP DATABASE IF EXISTS {DATABASE}")
        self._execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
        self._execute(f"USE {DATABASE}")
        for name, key in _TABLES.items():
            # MariaDB does not log all that it generates, and such a table is refused.
            if name != "generated" or self._logs_all:
                self._create_table(name, key)

    def run(self, statements: int) -> None:
        """Write for about so many statements."""
        for _ in range(statements):
            if self._random.random() < 0.05:
                self._choose_session()
            if self._random.random() < 0.06:
                self._alter(self._table())
            else:
                self._transaction()

    # ------------------------------------------------------------------ tables

    def _create_table(self, name: str, key: tuple[str, ...]) -> None:
        table = self.tables[name] = Table(name, key)
        for each in ("id", "part"):
            table.note(Column(each, _KEYS[each], None, ""))
        count = 3 if name == "narrow" else self._random.randint(6, 11)
        table.columns = [self._column() for _ in range(count)]
        declared = [f"`{each.name}` {each.declared}" for each in table.columns]
        declared += [f"{each} {_KEYS[each].sql} NOT NULL" for each in ("id", "part")]
        if name == "generated":
            base = Column("base", _BASE, None, "int NULL")
            table.columns.append(base)
            table.generated = tuple(_GENERATED)
            declared += ["base int NULL", *(f"{g} {sql}" for g, sql in _GENERATED.items())]
            for each in _GENERATED:
                table.note(Column(each, _BASE, None, ""))
        self._random.shuffle(declared)
        if key:
            declared.append(f"PRIMARY KEY ({', '.join(key)})")
        self._execute(f"CREATE TABLE {_quote(name)} ({', '.join(declared)})")
        for column in table.columns:
            table.note(column)

    def _column(self) -> Column:
        random = self._random
        kind = random_kind(random, self._settings.server)
        self._names += 1
        # Names that look like something else, and no two alike.
        name = random.choice(["c", "from", "ü", "a b", "x.y", "@1"]) + str(self._names)
        return self._declare(name, kind)

    def _declare(self, name: str, kind: Kind) -> Column:
        random = self._random
        declared = kind.sql
        if kind.default is not None and random.random() < 0.6:
            null = "NULL" if random.random() < 0.5 or " NULL" in kind.sql else "NOT NULL"
            declared = f"{kind.sql.removesuffix(' NULL')} {null} DEFAULT {kind.default}"
        elif not kind.sql.endswith(" NULL"):
            declared = f"{kind.sql} NULL"
        return Column(name, kind, self._filled(kind, declared), declared)

    def _filled(self, kind: Kind, declared: str) -> Any:
        """Return what a row has in such a column that nobody gave a value."""
        self._execute(f"CREATE TEMPORARY TABLE only_one (v {declared})")
        self._execute("INSERT INTO only_one () VALUES ()")
        rows = self._execute(f"SELECT {kind.select.format('v')} FROM only_one")
        self._execute("DROP TEMPORARY TABLE only_one")
        return as_selected(rows[0][0])

    def _table(self) -> Table:
        return self._random.choice(list(self.tables.values()))

    def _alter(self, table: Table) -> None:
        random, columns = self._random, table.columns
        roll = random.random()
        place = random.choice(
            ["", " FIRST", " AFTER id", f" AFTER `{random.choice(columns).name}`"]
        )
        if roll < 0.15:
            self._whole(table, "TRUNCATE TABLE {t}", Effect(emptied=True))
        elif roll < 0.35 and len(columns) < _PER_TABLE_MAX:
            added = self._column()
            sql = f"ALTER TABLE {{t}} ADD COLUMN `{added.name}` {added.declared}{place}"
            if self._whole(table, sql, Effect(added={added.name: added.filled})):
                columns.append(added)
                table.note(added)
        elif roll < 0.5 and len(columns) > 3:
            dropped = random.choice(columns)
            sql = f"ALTER TABLE {{t}} DROP COLUMN `{dropped.name}`"
            if self._whole(table, sql, Effect(dropped=dropped.name)):
                columns.remove(dropped)
        elif roll < 0.7:
            self._rename(table, random.choice(columns), place)
        elif roll < 0.85:
            moved = random.choice(columns)
            if place not in ("", f" AFTER `{moved.name}`"):
                sql = f"ALTER TABLE {{t}} MODIFY `{moved.name}` {moved.declared}{place}"
                self._whole(table, sql, Effect())
        else:
            self._widen(table, random.choice(columns))

    def _rename(self, table: Table, column: Column, place: str) -> None:
        old = column.name
        self._names += 1
        new = f"renamed{self._names}"
        sql = f"ALTER TABLE {{t}} RENAME COLUMN `{old}` TO `{new}`"
        if self._random.random() < 0.5 and f"`{old}`" not in place:
            sql = f"ALTER TABLE {{t}} CHANGE `{old}` `{new}` {column.declared}{place}"
        if self._whole(table, sql, Effect(renamed=(old, new))):
            column.name = new
            table.note(column)

    def _widen(self, table: Table, column: Column) -> None:
        if column.kind.wider is None:
            return
        declared = column.declared.replace(column.kind.sql, column.kind.wider)
        sql = f"ALTER TABLE {{t}} MODIFY `{column.name}` {declared}"
        if self._whole(table, sql, Effect()):
            kind = column.kind
            column.kind = Kind(
                kind.wider or kind.sql,
                kind.make,
                kind.select,
                kind.show,
                kind.default,
                kind.changes,
            )
            column.declared = declared
            table.note(column)

    def _whole(self, table: Table, sql: str, effect: Effect) -> bool:
        try:
            self._execute(sql.format(t=_quote(table.name)))
        except pymysql.MySQLError as error:
            self._tolerate(error)
            return False
        table.effects.append(effect)
        self.done[sql.split(" ", 1)[0].lower()] += 1
        return True

    # ------------------------------------------------------------------ rows

    def _choose_session(self) -> None:
        """Set what each session may set for itself."""
        image = self._settings.image
        if image == MIXED:
            image = self._random.choice(["FULL", "MINIMAL", "NOBLOB"])
        self._execute(f"SET SESSION binlog_row_image = {image}")
        if self._settings.partial_json:
            value = self._random.choice(["PARTIAL_JSON", "PARTIAL_JSON", ""])
            # A difference says nothing where the image leaves out what it changes.
            if image == "MINIMAL":
                value = ""
            self._execute(f"SET SESSION binlog_row_value_options = '{value}'")

    def _transaction(self) -> None:
        random = self._random
        if random.random() < 0.4:
            self._attempt(self._write(self._table()))
            return
        self._execute("BEGIN")
        for number in range(random.choice([1, 2, 5])):
            if random.random() < 0.15:
                self._execute(f"SAVEPOINT s{number}")
                self._attempt(self._write(self._table()))
                if random.random() < 0.5:
                    self._execute(f"ROLLBACK TO s{number}")
            self._attempt(self._write(self._table()))
        self._execute("ROLLBACK" if random.random() < 0.1 else "COMMIT")

    def _attempt(self, sql: str) -> None:
        try:
            self._execute(sql)
            self.done[sql.split(" ", 1)[0].lower()] += 1
        except pymysql.MySQLError as error:
            self._tolerate(error)

    def _tolerate(self, error: pymysql.MySQLError) -> None:
        if error.args[0] not in _EXPECTED:
            raise error
        self.done["refused"] += 1

    def _write(self, table: Table) -> str:
        roll = self._random.random()
        if roll < 0.45:
            return self._insert(table)
        if roll < 0.8:
            return self._update(table)
        if roll < 0.88:
            return self._move(table)
        return f"DELETE FROM {_quote(table.name)} WHERE {self._some()}"

    def _some(self) -> str:
        low = self._random.randint(0, 120)
        return f"id BETWEEN {low} AND {low + self._random.choice([0, 0, 2, 30])}"

    def _insert(self, table: Table) -> str:
        random = self._random
        chosen = list(table.columns)
        if random.random() < 0.5:
            chosen = random.sample(chosen, random.randint(0, len(chosen)))
        names = ", ".join(["id", "part", *(f"`{each.name}`" for each in chosen)])
        rows = []
        for _ in range(random.choice([1, 1, 3, 25])):
            part = random.choice(["a", "b", "ü"])
            values = [str(random.randint(0, 150)), f"'{part}'"]
            values += [self._value(each) for each in chosen]
            rows.append(f"({', '.join(values)})")
        # MariaDB does not log what REPLACE resets, and its own replicas keep the old values.
        verbs = ["INSERT IGNORE", "INSERT IGNORE", "REPLACE" if self._logs_all else "INSERT IGNORE"]
        verb = random.choice(verbs)
        return f"{verb} INTO {_quote(table.name)} ({names}) VALUES {', '.join(rows)}"

    def _value(self, column: Column) -> str:
        if self._random.random() < 0.15 and "NOT NULL" not in column.declared:
            return "NULL"
        return column.kind.make(self._random)

    def _update(self, table: Table) -> str:
        random = self._random
        assignments = []
        for column in random.sample(table.columns, random.randint(1, 2)):
            value = self._value(column)
            if column.kind.changes and random.random() < 0.7:
                value = random.choice(column.kind.changes).format(f"`{column.name}`")
            assignments.append(f"`{column.name}` = {value}")
        changes = ", ".join(assignments)
        return f"UPDATE IGNORE {_quote(table.name)} SET {changes} WHERE {self._some()}"

    def _move(self, table: Table) -> str:
        by = self._random.choice([1, -1, 150])
        order = "DESC" if by > 0 else "ASC"
        change = f"id = id + {by}" if self._random.random() < 0.7 else "part = CONCAT('m', part)"
        return (
            f"UPDATE IGNORE {_quote(table.name)} SET {change} WHERE {self._some()}"
            f" ORDER BY id {order}"
        )

    # ------------------------------------------------------------------ the server

    def contents(self, table: Table) -> list[dict[str, Any]]:
        """Return what SELECT returns, in the form that is compared."""
        kinds = {name: _KEYS[name] for name in ("id", "part")}
        kinds |= dict.fromkeys(table.generated, _BASE)
        kinds |= {each.name: each.kind for each in table.columns}
        shown = ", ".join(kind.select.format(f"`{name}`") for name, kind in kinds.items())
        rows = self._execute(f"SELECT {shown} FROM {_quote(table.name)}")
        return [dict(zip(kinds, map(as_selected, row), strict=True)) for row in rows]

    def _execute(self, sql: str) -> list[tuple[Any, ...]]:
        with closing(self._connection.cursor()) as cursor:
            cursor.execute(sql)
            return list(cursor.fetchall())


def _quote(name: str) -> str:
    return f"`{name.replace('`', '``')}`"


@contextlib.contextmanager
def global_settings(server: Server, settings: Settings) -> Any:
    """Set the server to a combination, and back."""
    values = {"binlog_row_metadata": settings.metadata}
    if settings.is_mysql:
        values["binlog_transaction_compression"] = str(int(settings.compression))
    else:
        values["log_bin_compress"] = str(int(settings.compression))
    with closing(connect(server)) as connection, connection.cursor() as cursor:
        before = {}
        for name in values:
            cursor.execute(f"SELECT @@GLOBAL.{name}")
            before[name] = cursor.fetchone()[0]
        for name, value in values.items():
            cursor.execute(f"SET GLOBAL {name} = {value}")
        try:
            yield
        finally:
            for name, value in before.items():
                cursor.execute(f"SET GLOBAL {name} = {value}")
