"""Completion: one table fits a TABLE_MAP, or it is not clear which."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default, Field, Schema
from airflow_provider_binlog.schema_history.completion import (
    complete_table_map,
    is_complete,
    joined,
    lacks_defaults,
)
from airflow_provider_binlog.schema_history.partial_schemas import partial_from_schema
from airflow_provider_binlog.schema_history.statements import Undeterminable
from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema
from tests.unit.rows import wire

if TYPE_CHECKING:
    from collections.abc import Sequence

VERSION = (11, 8, 6)
ID = Key((("id", 0),), primary=True, others=False)
INT, BIG = Facts("int", unsigned=False), Facts("bigint", unsigned=True)


def logged(*kinds: ColumnType, names: Sequence[str] = (), nullable: bool = True) -> TableMap:
    """Return a table of numbers as NO_LOG logs it, or as FULL does where there are names."""
    columns = tuple(
        TableMapColumn(kind, b"", kind, nullable=nullable and index > 0)
        for index, kind in enumerate(kinds)
    )
    if names:
        columns = tuple(
            replace(column, name=name, unsigned=False)
            for column, name in zip(columns, names, strict=True)
        )
    return TableMap(7, 1, "shop", "t", columns, ((0, 0),) if names else None)


def schema(key: Key | None = ID, **facts: Facts) -> PartialSchema:
    return PartialSchema(tuple(PartialColumn(name, each) for name, each in facts.items()), key)


def completed(table_map: TableMap, known: PartialSchema) -> TableMap | Undeterminable:
    return complete_table_map(table_map, known, flavor=Flavor.MARIADB, version=VERSION)


def names(found: TableMap | Undeterminable) -> list[str | None] | str:
    return found.reason if isinstance(found, Undeterminable) else [c.name for c in found.columns]


NUMBERS = logged(ColumnType.LONG, ColumnType.LONGLONG)


def test_what_the_log_leaves_out_is_added() -> None:
    found = completed(NUMBERS, schema(id=INT, n=BIG))

    assert isinstance(found, TableMap)
    assert [(c.name, c.unsigned) for c in found.columns] == [("id", False), ("n", True)]
    assert found.primary_key == ((0, 0),)
    assert (found.table_id, found.flags) == (7, 1)


def test_a_prefix_of_a_key_is_kept_and_no_key_is_none() -> None:
    prefixed = Key((("n", 5), ("ID", 0)), primary=True, others=False)
    nothing = Key((), primary=False, others=False)

    keys = [completed(NUMBERS, schema(key, id=INT, n=BIG)) for key in (prefixed, nothing)]

    assert [each.primary_key for each in keys if isinstance(each, TableMap)] == [
        ((1, 5), (0, 0)),
        None,
    ]


@pytest.mark.parametrize(
    ("known", "reason"),
    [
        (schema(id=INT), "2 columns in the log, 1 there"),
        (schema(id=INT, n=INT), "column n: LONGLONG in the log, int there"),
        (schema(id=INT, n=Facts("bigint")), "nothing says the signedness of column n"),
        (schema(None, id=INT, n=BIG), "may have changed its key"),
        (schema(Key((("x", 0),), True, False), id=INT, n=BIG), "has a column x"),
    ],
)
def test_what_is_not_clear_is_said(known: PartialSchema, reason: str) -> None:
    assert reason in names(completed(NUMBERS, known))


def test_the_hashes_of_unique_keys_are_hidden() -> None:
    table = schema(id=INT)
    hashed = logged(ColumnType.LONG, ColumnType.LONGLONG, ColumnType.LONGLONG)

    found = completed(hashed, replace(table, hidden=2))
    assert isinstance(found, TableMap)
    assert (names(found), found.hidden) == (["id"], 2)
    for count in (0, 1, 3):
        assert "3 columns in the log, 1" in names(completed(hashed, replace(table, hidden=count)))
    signed = replace(
        hashed, columns=tuple(replace(each, unsigned=False) for each in hashed.columns)
    )
    for other in (signed, logged(ColumnType.LONG, ColumnType.LONG, ColumnType.LONGLONG)):
        assert "3 columns" in names(completed(other, replace(table, hidden=2)))


def test_names_that_are_logged_are_compared() -> None:
    full = logged(ColumnType.LONG, ColumnType.LONG, names=["b", "a"])

    assert names(completed(full, schema(None, b=INT, a=INT))) == ["b", "a"]
    assert "a column b in the log" in names(completed(full, schema(None, a=INT, b=INT)))


def test_information_schema_adds_to_a_known_schema_of_the_same_columns() -> None:
    seven = Default("7")
    known = schema(id=INT, n=replace(BIG, default=None))
    shown = schema(ID=INT, N=Facts("int", default=seven))
    other = schema(id=INT, m=Facts(default=seven))

    assert joined(known, shown) == schema(id=INT, n=replace(BIG, default=seven))
    assert joined(known, other) == known
    assert lacks_defaults(known)
    assert not lacks_defaults(schema(n=replace(BIG, default=seven), g=Facts(generated=True)))


def test_of_mariadb_names_are_not_all() -> None:
    full = logged(ColumnType.LONG, names=["id"])
    old = logged(ColumnType.DATETIME, names=["at"])
    bytes_16 = wire.table(wire.char(16, collation=wire.BINARY, name="u"))

    for flavor in Flavor:
        assert is_complete(full, flavor, VERSION)
    assert [is_complete(each, Flavor.MARIADB, VERSION) for each in (old, bytes_16)] == [False] * 2
    assert [is_complete(each, Flavor.MYSQL, VERSION) for each in (old, bytes_16)] == [True] * 2


@pytest.mark.parametrize(
    ("mysql_type", "charset", "facts"),
    [
        ("bigint unsigned", None, Facts("bigint", True, unsigned=True)),
        ("decimal(10,2)", None, Facts("decimal", True, unsigned=False)),
        ("varchar(40)", "latin1", Facts("varchar", True, charset="latin1")),
        ("text compressed", "utf8mb4", Facts("text", True, charset="utf8mb4")),
        ("varbinary(4)", None, Facts("varbinary", True, charset="binary")),
        ("uuid", None, Facts("uuid", True, charset="binary")),
        (
            "enum('a','it''s',',')",
            "latin1",
            Facts("enum", True, None, "latin1", ("a", "it's", ",")),
        ),
        ("set('a')", None, Facts("set", True, None, "binary", ("a",))),
        ("datetime(3)", None, Facts("datetime", True, fsp=3)),
    ],
)
def test_what_a_manifest_says(mysql_type: str, charset: str | None, facts: Facts) -> None:
    field = Field(1, "c", mysql_type, "?", nullable=True, charset=charset)

    found = partial_from_schema(Schema(1, (field,), (1,)))

    facts = replace(facts, generated=False, auto_increment=False)
    assert found.columns == (PartialColumn("c", facts, field=1),)
    assert found.key == Key((("c", 0),), primary=False, others=True)


def test_defaults_are_added_where_they_can_be() -> None:
    null, seven = Default(None), Default("7")
    facts = [
        replace(BIG, default=seven),
        replace(BIG, default=null),
        replace(BIG, default=seven, generated=True),
        BIG,
    ]
    table_map = logged(ColumnType.LONG, *[ColumnType.LONGLONG] * 4)

    named = dict(zip("abcd", facts, strict=True), id=replace(INT, default=null))
    before = PartialSchema(tuple(PartialColumn(name, named[name]) for name in ("id", *"abcd")), ID)
    found = completed(table_map, before)

    assert isinstance(found, TableMap)
    # `id` is not nullable.
    assert [c.default for c in found.columns] == [None, seven, null, None, None]


def test_defaults_come_from_the_manifest() -> None:
    seven = Default("7")
    schema = Schema(1, (Field(1, "n", "int", "int32", True, write_default=seven),), ())

    assert [each.facts.default for each in partial_from_schema(schema).columns] == [seven]
