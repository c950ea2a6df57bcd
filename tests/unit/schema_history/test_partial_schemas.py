"""Partial schemas: statements change them as a plain model does."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL as NO_VALUE
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, alter
from airflow_provider_binlog.schema_history.statements import changes_of
from airflow_provider_binlog.sql.columns import Facts, Key, PartialColumn, PartialSchema
from airflow_provider_binlog.sql.definitions import (
    FIRST,
    AddColumn,
    AddPrimaryKey,
    Alteration,
    ChangeColumn,
    ChangeIndexes,
    ConvertCharset,
    Definition,
    DropColumn,
    DropPrimaryKey,
    Opaque,
    RenameColumn,
    SetDefault,
)
from tests.support.statements import a_statement

NO_KEY = Key((), primary=False, others=False)
ID = Key((("id", 0),), primary=True, others=False)


def schema(names: str, key: Key | None = NO_KEY) -> PartialSchema:
    return PartialSchema(tuple(PartialColumn(each) for each in names.split()), key)


def add(name: str, after: str | None = None, *, optional: bool = False) -> AddColumn:
    return AddColumn(name, Definition(), NO_VALUE, after, optional)


def change(old: str, name: str, after: str | None = None) -> ChangeColumn:
    return ChangeColumn(old, name, Definition(), after)


# What the servers make of them: tried on MySQL 9.7 and MariaDB 10.11 and 11.8.
TRIED: list[tuple[list[Alteration], str]] = [
    ([add("x", "c"), change("c", "c", FIRST)], "c a b x d"),
    ([change("c", "c", FIRST), add("x", "c")], "c x a b d"),
    ([RenameColumn("a", "b"), RenameColumn("b", "a")], "b a c d"),
    ([RenameColumn("a", "z"), add("x", "z")], "z x b c d"),
    ([change("a", "z"), add("x", "z")], "z x b c d"),
    ([change("a", "z", "c"), add("x", "z")], "b c z x d"),
    ([add("x", "z"), change("a", "z", "c")], "x b c z d"),
    ([DropColumn("a"), add("a", "c")], "b c a d"),
    ([add("x", FIRST), add("y", FIRST)], "y x a b c d"),
    ([change("a", "b"), change("b", "a", FIRST)], "a b c d"),
    ([change("a", "b", "c"), change("b", "a", FIRST)], "a c b d"),
    ([change("a", "a", "b"), change("b", "b", "c"), change("c", "c", FIRST)], "c a b d"),
    ([change("a", "q"), RenameColumn("b", "a")], "q a c d"),
    ([DropColumn("b"), change("c", "b")], "a b d"),
    ([DropColumn("b"), RenameColumn("c", "b"), add("c", "a")], "a c b d"),
    ([change("b", "b", "c"), change("c", "c", "b")], "a b c d"),
    ([add("A", FIRST, optional=True), add("e", "a", optional=True)], "a e b c d"),
    ([DropColumn("zz", optional=True)], "a b c d"),
    ([ChangeColumn("zz", "b", Definition(), optional=True)], "a b c d"),
]


@pytest.mark.parametrize(("alterations", "names"), TRIED)
def test_columns_stand_where_the_server_puts_them(
    alterations: list[Alteration], names: str
) -> None:
    before = schema("a b c d")

    after = alter(before, alterations)

    assert after is not None
    assert after.names == tuple(names.split())


@pytest.mark.parametrize(
    "alterations",
    [
        [add("x", "nowhere")],
        [add("x", "y"), add("y", "a")],
        [RenameColumn("a", "z"), add("x", "a")],
        [DropColumn("nowhere")],
        [RenameColumn("nowhere", "z")],
        [RenameColumn("a", "b")],
        [add("A")],
        [Opaque("?")],
    ],
)
def test_what_the_server_would_refuse_is_not_known(alterations: list[Alteration]) -> None:
    assert alter(schema("a b"), alterations) is None


# ------------------------------------------------------------------- against a plain model

NAMES = "abcdefgh"


@st.composite
def histories(draw: st.DrawFn) -> tuple[list[str], list[list[Alteration]], list[list[str]]]:
    """Draw a table, statements of one alteration each, and what a plain model makes of it."""
    names = draw(st.lists(st.sampled_from(NAMES), min_size=2, max_size=5, unique=True))
    statements: list[list[Alteration]] = []
    stages = [names]
    for _ in range(draw(st.integers(1, 3))):
        names = list(stages[-1])
        free = [each for each in NAMES if each not in names]
        kind = draw(st.sampled_from(["add", "drop", "rename", "swap", "change"]))
        if (kind == "drop" and len(names) == 1) or (kind == "swap" and len(names) < 2):
            continue
        one = draw(st.sampled_from(names))
        if kind == "add":
            after_name = draw(st.sampled_from([None, FIRST, *names]))
            statements.append([add(free[0], after_name)])
            names.insert(_index(names, after_name), free[0])
        elif kind == "drop":
            statements.append([DropColumn(one)])
            names.remove(one)
        elif kind == "rename":
            statements.append([RenameColumn(one.upper(), free[0])])
            names[names.index(one)] = free[0]
        elif kind == "swap":
            other = draw(st.sampled_from([each for each in names if each != one]))
            statements.append([RenameColumn(one, other), RenameColumn(other, one)])
            i, j = names.index(one), names.index(other)
            names[i], names[j] = names[j], names[i]
        else:
            after_name = draw(
                st.sampled_from([None, FIRST, *(each for each in names if each != one)])
            )
            statements.append([change(one, free[0], after_name)])
            if after_name is None:
                names[names.index(one)] = free[0]
            else:
                names.remove(one)
                names.insert(_index(names, after_name), free[0])
        stages.append(names)
    return stages[0], statements, stages


def _index(names: list[str], after_name: str | None) -> int:
    if after_name is None:
        return len(names)
    return 0 if after_name == FIRST else names.index(after_name) + 1


@given(histories())
def test_any_history_is_followed(
    history: tuple[list[str], list[list[Alteration]], list[list[str]]],
) -> None:
    names, statements, stages = history
    at: PartialSchema | None = schema(" ".join(names))
    for statement, expected in zip(statements, stages[1:], strict=True):
        assert at is not None
        at = alter(at, statement)
        assert at is not None
        assert at.names == tuple(expected)


def test_another_character_set() -> None:
    latin1, with_values = Facts("text", charset="latin1"), Facts("enum", charset="latin1")
    number, octets = Facts("int", unsigned=True), Facts("blob", charset="binary")
    before = PartialSchema(
        tuple(map(PartialColumn, "abcd", (latin1, with_values, number, octets))), NO_KEY
    )
    statement = [ConvertCharset("utf8mb4")]

    after = alter(before, statement)

    assert after is not None
    assert [each.facts.charset for each in after.columns] == ["utf8mb4", "utf8mb4", None, "binary"]
    # TEXT may have become MEDIUMTEXT.
    assert [each.facts.data_type for each in after.columns] == [None, "enum", "int", "blob"]


def test_what_is_put_before_a_key_that_mysql_generated_is_not_followed() -> None:
    table = PartialSchema((PartialColumn("my_row_id"), PartialColumn("a")), NO_KEY)

    assert alter(table, [add("x", FIRST)]) is None
    assert alter(table, [add("x")]) is not None


# ------------------------------------------------------------------- keys


def key(names: str, *, primary: bool = True, others: bool = False) -> Key:
    return Key(tuple((name, 0) for name in names.split()), primary, others)


UNIQUE_ID = key("id", primary=False, others=True)


@pytest.mark.parametrize(
    ("before", "alterations", "after"),
    [
        (ID, [RenameColumn("ID", "nr")], key("nr")),
        (ID, [change("id", "nr", FIRST)], key("nr")),
        (ID, [DropPrimaryKey(), AddPrimaryKey((("a", 3),))], Key((("a", 3),), True, False)),
        (ID, [DropPrimaryKey()], NO_KEY),
        (key("id", others=True), [DropPrimaryKey()], None),
        (ID, [DropColumn("id")], None),
        (ID, [DropColumn("a")], ID),
        (ID, [ChangeIndexes()], key("id", others=True)),
        (NO_KEY, [AddPrimaryKey((("a", 0),))], key("a")),
        (NO_KEY, [ChangeIndexes()], None),
        (NO_KEY, [change("a", "a")], NO_KEY),
        (UNIQUE_ID, [change("a", "a")], None),
        (UNIQUE_ID, [DropColumn("a")], None),
        (UNIQUE_ID, [ChangeIndexes()], None),
        (UNIQUE_ID, [RenameColumn("id", "nr"), add("x")], key("nr", primary=False, others=True)),
        (None, [add("x")], None),
        (None, [AddPrimaryKey((("a", 0),))], key("a", others=True)),
    ],
)
def test_the_key_after(before: Key | None, alterations: list[Alteration], after: Key) -> None:
    found = alter(schema("id a", before), alterations)

    assert found is not None
    assert found.key == after


# ------------------------------------------------------------------- defaults

SEVEN = Default("7")
DEFAULTED = PartialSchema(
    (PartialColumn("a", Facts(default=NO_VALUE)), PartialColumn("b", Facts(default=SEVEN))), NO_KEY
)


@pytest.mark.parametrize(
    ("alterations", "after"),
    [
        ([ChangeIndexes()], {"a": NO_VALUE, "b": SEVEN}),
        ([ConvertCharset("latin1")], {"a": NO_VALUE, "b": SEVEN}),
        ([add("c")], {"a": NO_VALUE, "b": SEVEN, "c": None}),
        ([SetDefault("A")], {"a": None, "b": SEVEN}),
        ([SetDefault("c")], {"a": NO_VALUE, "b": SEVEN}),
        ([change("b", "b")], {"a": NO_VALUE, "b": None}),
        ([AddPrimaryKey((("b", 0),))], {"a": NO_VALUE, "b": None}),
        ([RenameColumn("b", "c")], {"a": NO_VALUE, "c": SEVEN}),
        ([RenameColumn("b", "c"), SetDefault("b")], {"a": NO_VALUE, "c": None}),
        ([RenameColumn("b", "c"), SetDefault("c")], {"a": NO_VALUE, "c": None}),
    ],
)
def test_a_default_stays_until_a_statement_may_have_changed_it(
    alterations: list[Alteration], after: dict[str, Default | None]
) -> None:
    found = alter(DEFAULTED, alterations)

    assert found is not None
    assert {column.name: column.facts.default for column in found.columns} == after


# ------------------------------------------------------------------- tables under names


def tracked(*statements: str, **before: str) -> dict[str, str | None]:
    """Return the columns of tables after statements, of those that are known before."""
    names = {("shop", name): columns for name, columns in before.items()}
    schemas = TrackedSchemas(lambda name: schema(names[name], ID) if name in names else None)
    for sql in statements:
        for logged in changes_of(a_statement(sql)):
            schemas.apply(logged, Flavor.MYSQL)
    found = {table: schemas.find(("shop", table)) for table in "tuvw"}
    return {table: None if each is None else " ".join(each.names) for table, each in found.items()}


def only(**tables: str) -> dict[str, str | None]:
    return dict.fromkeys("tuvw") | tables


GH_OST = [
    "CREATE TABLE v LIKE t",
    "ALTER TABLE v ADD z int FIRST",
    "RENAME TABLE t TO w, v TO t",
    "DROP TABLE w",
]


@pytest.mark.parametrize(
    ("statements", "after"),
    [
        (["ALTER TABLE u ADD x int"], only(t="id a")),
        (
            ["ALTER TABLE t ADD b int AFTER id", "ALTER TABLE t RENAME COLUMN a TO c"],
            only(t="id b c"),
        ),
        (["RENAME TABLE t TO w, u TO t, w TO u"], only(u="id a")),
        (GH_OST, only(t="z id a")),
        (["DROP TABLE t"], only()),
        (["DROP TABLE t", "CREATE TABLE t (k int PRIMARY KEY)"], only(t="k")),
        (["DROP DATABASE shop"], only()),
        (["CREATE TABLE IF NOT EXISTS t (k int PRIMARY KEY)"], only(t="id a")),
        (["CREATE TABLE IF NOT EXISTS u (k int PRIMARY KEY)"], only(t="id a")),
        (["CREATE OR REPLACE TABLE t (k int PRIMARY KEY)"], only(t="k")),
        (["ALTER TABLE t ADD SYSTEM VERSIONING"], only()),
        # MySQL may add a key to a table without one.
        (["CREATE TABLE u (k int)"], only(t="id a")),
    ],
)
def test_tables_are_followed_under_their_names(
    statements: list[str], after: dict[str, str | None]
) -> None:
    assert tracked(*statements, t="id a") == after
