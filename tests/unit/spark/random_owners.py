"""Owners of tables, who write and alter them at random."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog.schema import Default
from tests.unit.spark.history import RowImage
from tests.unit.spark.lake_in_memory import StagedInMemory
from tests.unit.spark.staged_changes import BIGINT, INT, ColumnType

if TYPE_CHECKING:
    from collections.abc import Callable

NUMBER = ColumnType("int", BIGINT.arrow)
NEVER_NULL = replace(NUMBER, nullable=False, default=None, initial=0)
DECIMAL = ColumnType("decimal(20,2)", pa.decimal128(20, 2))
WIDE = ColumnType("decimal(20,0)", pa.decimal128(20, 0))
SEVEN = replace(NUMBER, default=Default("7"), initial=7)


class Owner:
    """Changes one table at random; a quiet one is older than the log, and has few changes."""

    def __init__(
        self,
        source: StagedInMemory,
        chance: random.Random,
        name: str,
        *,
        quiet: bool,
        begin: Callable[[], object] = lambda: None,
        key: tuple[str, ...] = ("id",),
    ) -> None:
        self.source, self.chance, self.quiet, self.begin = source, chance, quiet, begin
        self.types, self.key = {"id": INT if key else NUMBER, "n": NUMBER}, key
        self.table = source.create(
            "shop", name, dict(self.types), key, logged=chance.random() < 0.8 - quiet
        )
        self.exists = True
        self.next_id = 1
        for _ in range(2 * quiet):
            self.table.load(id=self.next_id, n=self.next_id)
            self.next_id += 1
        source.owners.append(self)

    def step(self) -> None:
        table = self.table
        self.begin()
        self.source.note()
        if not self.exists:
            if self.chance.random() < 0.5:
                table.types, table.key = dict(self.types), self.key
            table.create_again()
            self.exists = True
            self.source.note()
        rows = 1 if self.quiet else 12
        action = self.chance.choice(
            ["row"] * rows + ["alter"] * 4 + ["truncate", "drop", "rewrite"]
        )
        if action == "row":
            self.row()
        elif action == "alter":
            self.alter()
        elif action == "truncate":
            table.truncate()
        elif action == "drop":
            self.drop()
        elif self.chance.random() < 0.2:
            self.rewrite()

    def drop(self) -> None:
        self.table.drop()
        self.exists = False

    def row(self) -> None:
        table, chance = self.table, self.chance
        self.source.row_image = chance.choice([RowImage.FULL, RowImage.FULL, RowImage.MINIMAL])
        rest = [name for name in table.types if name != "id"]
        given = chance.sample(rest, chance.randint(0, len(rest)))
        values = {name: chance.randint(1, 99) for name in {*given, *table.key} - {"id"}}
        action = chance.choice("iiiud") if table.rows else "i"
        if action == "i":
            table.insert(id=self.next_id, **values)
            self.next_id += 1
        elif action == "u":
            key = chance.choice(list(table.rows))
            if chance.random() < 0.2:
                values["id"] = self.next_id
                self.next_id += 1
            table.update(key, **values)
        else:
            table.delete(chance.choice(list(table.rows)))

    def rewrite(self) -> None:
        """Change rows as a statement does."""
        table = self.table
        name = self.chance.choice([None, *(each for each in table.types if each != "id")])
        if name is None:
            for key in list(table.rows)[::2]:
                del table.rows[key]
        elif name not in table.key:
            at = list(table.types).index(name)
            for key, row in table.rows.items():
                table.rows[key] = (*row[:at], -1, *row[at + 1 :])
        table.rewrite("rewrote values", name)

    def alter(self) -> None:
        """Change the columns, and the rows as the server does."""
        table, chance = self.table, self.chance
        rest = [name for name in table.types if name not in ("id", *table.key)]
        free = [name for name in "abcdefghnmAN" if name.lower() not in map(str.lower, table.types)]
        old, other = (chance.choice(rest), chance.choice(rest)) if rest else (None, None)
        new = chance.choice(free)
        any_ = chance.choice(list(table.types))
        type_, value, unknown = chance.choice(
            [(NUMBER, None, False), (SEVEN, 7, False), (NEVER_NULL, 0, False), (NUMBER, 8, True)]
        )
        keys = ["key", "no key"] if self.key else []
        action = chance.choice(
            ["add"] * 4 + ["drop", "rename", "swap", "again", "relax", "type", *keys]
        )
        types, renamed = dict(table.types), dict[str, str]()
        added: list[str] = []
        key: tuple[str, ...] | None = None
        if action == "add":
            types[new], added = type_, [new]
        elif action == "drop" and old:
            del types[old]
        elif action == "rename" and any_ != "id":
            name = chance.choice([new, any_.swapcase()])
            types = {name if each == any_ else each: type_ for each, type_ in types.items()}
            renamed = {name: any_}
        elif action == "swap" and old and other and old != other:
            renamed = {old: other, other: old}
            types = {renamed.get(each, each): type_ for each, type_ in types.items()}
        elif action == "again" and old:
            types[old], added = type_, [old]
        elif action == "relax" and old:
            types[old] = NUMBER
        elif action == "type" and old:
            types[old] = chance.choice([NUMBER, DECIMAL, WIDE])
        elif action == "key" and old and all(row[old] is not None for row in table.values):
            key = ("id", old) if len(table.key) == 1 else ("id",)
        elif action == "no key" and chance.random() < 0.3:
            key = ()
        table.alter(
            action,
            types,
            renamed=renamed,
            again=added if action == "again" else (),
            unknown=added if unknown else (),
            key=key,
            **dict.fromkeys(added, value),
        )


def rename(source: StagedInMemory, chance: random.Random, owners: list[Owner]) -> None:
    """Give a table another name, or two tables each other's."""
    one, other = chance.sample(owners, 2)
    taken = {owner.table.name[1] for owner in owners}
    name = chance.choice([each for each in ("t", "u", "v", "w") if each not in taken])
    if not one.exists:
        return
    source.note()
    if other.exists and chance.random() < 0.5:
        first, second = one.table.name[1], other.table.name[1]
        source.rename((one.table, name), (other.table, first), (one.table, second))
    else:
        source.rename((one.table, name))
        source.note()
        if chance.random() < 0.3 and "x" not in taken:
            source.rename((one.table, "x"))
