"""Random ALTER TABLE statements, with comments where a careless reader stumbles."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.names import quote_identifier as quote

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from tests.random_ddl.definitions import Column, Definitions

_COMMENTS = (" ", " ", " ", " /* DROP COLUMN id, */ ", " -- x\n ", " # , RENAME TO y\n ")
_PARTITIONS = (
    "PARTITION BY RANGE COLUMNS (id) (PARTITION p VALUES LESS THAN (3), "
    "PARTITION q VALUES LESS THAN (MAXVALUE))"
)


class Alterations:
    """Makes statements for a table with some columns."""

    def __init__(self, random: Random, definitions: Definitions, *, mariadb: bool) -> None:
        self._random, self._definitions, self._mariadb = random, definitions, mariadb
        self._names = 0

    def statement(self, table: str, columns: list[Column]) -> str:
        """Return a statement; a server may refuse it."""
        random = self._random
        verb = "ALTER IGNORE TABLE" if self._mariadb and random.random() < 0.03 else "ALTER TABLE"
        common: list[Callable[[list[Column]], str]] = [
            *(self._add, self._add, self._add, self._drop, self._rename, self._modify),
            *(self._modify, self._change, self._set_default, self._exchange, self._add_again),
        ]
        if random.random() < 0.12:
            clauses = [random.choice([self._key, self._whole, self._partition])(columns)]
        else:
            count = random.choice([1, 1, 1, 2, 3])
            clauses = [random.choice(common)(columns) for _ in range(count)]
        gap = random.choice(_COMMENTS)
        return f"{verb}{gap}{quote(table)}{gap}{f',{gap}'.join(clauses)}"

    def _new_name(self) -> str:
        self._names += 1
        return self._random.choice(["c", "drop ", "é", "Add"]) + str(self._names)

    def _pick(self, columns: list[Column]) -> str:
        # The key now and then: most of its changes end what the lake can follow.
        rest = [each for each in columns if each.name not in ("id", "k")]
        return self._random.choice(
            columns if not rest or self._random.random() < 0.1 else rest
        ).name

    def _position(self, columns: list[Column]) -> str:
        after = quote(self._pick(columns))
        return self._random.choice(["", "", "", " FIRST", f" AFTER {after}"])

    def _add(self, columns: list[Column]) -> str:
        column = self._random.choice(["COLUMN ", "", "/*!50100 COLUMN */ "])
        name = quote(self._new_name())
        if self._mariadb and self._random.random() < 0.1:
            # Most often it is there already.
            column, name = "COLUMN IF NOT EXISTS ", quote(self._pick(columns))
        added = f"ADD {column}{name} {self._definitions.definition()}{self._position(columns)}"
        if self._random.random() < 0.05:
            added += f", ALTER COLUMN {name} SET DEFAULT 5"
        return added

    def _drop(self, columns: list[Column]) -> str:
        word = self._random.choice(["COLUMN ", "", "/* PARTITION */ "])
        if self._mariadb and self._random.random() < 0.1:
            word = "COLUMN IF EXISTS "
        return f"DROP {word}{quote(self._pick(columns))}"

    def _rename(self, columns: list[Column]) -> str:
        old = self._pick(columns)
        new = self._random.choice([self._new_name(), old.swapcase()])
        return f"RENAME COLUMN {quote(old)} TO {quote(new)}"

    def _exchange(self, columns: list[Column]) -> str:
        one, other = quote(self._pick(columns)), quote(self._pick(columns))
        return f"RENAME COLUMN {one} TO {other}, RENAME COLUMN {other} TO {one}"

    def _add_again(self, columns: list[Column]) -> str:
        name = quote(self._pick(columns))
        return f"DROP COLUMN {name}, ADD COLUMN {name} {self._definitions.definition()}"

    def _modify(self, columns: list[Column]) -> str:
        name = quote(self._pick(columns))
        return f"MODIFY {name} {self._definitions.definition()}{self._position(columns)}"

    def _change(self, columns: list[Column]) -> str:
        old = self._pick(columns)
        new = self._random.choice([self._new_name(), old, old.swapcase()])
        return f"CHANGE {quote(old)} {quote(new)} {self._definitions.definition()}"

    def _set_default(self, columns: list[Column]) -> str:
        name = quote(self._pick(columns))
        change = self._random.choice(["SET DEFAULT 5", "SET DEFAULT 'x'", "DROP DEFAULT"])
        return f"ALTER COLUMN {name} {change}"

    def _key(self, columns: list[Column]) -> str:
        key = ", ".join(quote(each) for each in dict.fromkeys(("id", self._pick(columns))))
        return self._random.choice(
            [
                "DROP PRIMARY KEY",
                f"ADD PRIMARY KEY ({key})",
                f"DROP PRIMARY KEY, ADD PRIMARY KEY ({key})",
                f"ADD UNIQUE ({quote(self._pick(columns))})",
                f"ADD INDEX ({quote(self._pick(columns))})",
            ]
        )

    def _whole(self, columns: list[Column]) -> str:
        of = self._definitions.type()
        return self._random.choice(
            [
                *("FORCE", "ENGINE=InnoDB", "COMMENT='DROP PARTITION p'", "ORDER BY id"),
                *("CONVERT TO CHARACTER SET utf8mb4", "CONVERT TO CHARACTER SET latin1"),
                *("DEFAULT CHARACTER SET latin1", "ROW_FORMAT=DYNAMIC", "ENGINE=BLACKHOLE"),
                f"MODIFY id {of} NOT NULL",
                f"ADD CHECK ({quote(self._pick(columns))} IS NOT NULL)",
            ]
        )

    def _partition(self, _: list[Column]) -> str:
        return self._random.choice(
            [
                *(_PARTITIONS, _PARTITIONS, "PARTITION BY KEY () PARTITIONS 2"),
                *("DROP PARTITION p", "TRUNCATE PARTITION p", "REMOVE PARTITIONING"),
                *("DROP /*!50100 PARTITION */ p", "REBUILD PARTITION p", "COALESCE PARTITION 1"),
            ]
        )
