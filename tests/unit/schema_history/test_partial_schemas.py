"""Partial schemas: ALTER TABLE changes them as a plain model does, and is reversed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import NULL as NO_VALUE
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.schema_history.facts import facts_of
from airflow_provider_binlog.schema_history.partial_schemas import CANDIDATES_MAX, alter, reverse
from airflow_provider_binlog.sql.alterations import (
    FIRST,
    AddColumn,
    AddPrimaryKey,
    Alteration,
    ChangeColumn,
    ChangeIndexes,
    ConvertCharset,
    DropColumn,
    DropPrimaryKey,
    Opaque,
    RenameColumn,
    SetDefault,
)
from airflow_provider_binlog.sql.column_types import SqlType
from airflow_provider_binlog.sql.definitions import Definition
from airflow_provider_binlog.sql.partial_schema import Facts, Key, PartialColumn, PartialSchema

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
    found = reverse(after, alterations, Flavor.MARIADB)
    assert found is not None
    assert before.names in [each.names for each in found]


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
def test_any_history_is_followed_forwards_and_backwards(
    history: tuple[list[str], list[list[Alteration]], list[list[str]]],
) -> None:
    names, statements, stages = history
    at: PartialSchema | None = schema(" ".join(names))
    for statement, expected in zip(statements, stages[1:], strict=True):
        assert at is not None
        at = alter(at, statement)
        assert at is not None
        assert at.names == tuple(expected)

    candidates = [schema(" ".join(stages[-1]))]
    for statement, expected in zip(statements[::-1], stages[-2::-1], strict=True):
        found = [reverse(each, statement, Flavor.MYSQL) for each in candidates]
        candidates = [past for each in found for past in each or []]
        # What it was is among them, spelt as the statements spell it.
        assert "".join(expected) in {"".join(each.names).casefold() for each in candidates}


def _loses_its_order(alteration: Alteration) -> bool:
    moved = isinstance(alteration, ChangeColumn) and alteration.after is not None
    return moved or isinstance(alteration, DropColumn)


@given(histories())
def test_without_moves_and_drops_there_is_one_past(
    history: tuple[list[str], list[list[Alteration]], list[list[str]]],
) -> None:
    _, statements, stages = history
    for statement, before, after in zip(statements, stages, stages[1:], strict=False):
        if any(map(_loses_its_order, statement)):
            continue

        (past,) = reverse(schema(" ".join(after)), statement, Flavor.MYSQL) or []

        assert [each.casefold() for each in past.names] == before


def test_a_dropped_column_may_have_stood_anywhere() -> None:
    found = reverse(schema("a b"), [DropColumn("x")], Flavor.MARIADB)

    assert found is not None
    assert {each.names for each in found} == {("x", "a", "b"), ("a", "x", "b"), ("a", "b", "x")}


def test_after_alter_column_a_key_that_mysql_generated_may_be_visible() -> None:
    key = PartialColumn("my_row_id", Facts(visible=False))
    table = PartialSchema((key, PartialColumn("a")), NO_KEY)
    put_first = [add("b", FIRST)]

    hidden, shown = (alter(table, each) for each in (put_first, [SetDefault("my_row_id")]))

    assert hidden is not None
    assert hidden.names == ("my_row_id", "b", "a")
    assert shown is not None
    assert alter(shown, put_first) is None


def test_a_default_that_may_not_have_been_set_leaves_one_schema() -> None:
    set_default = [SetDefault(each, optional=True) for each in ("a", "zz")]

    assert reverse(schema("a b"), set_default, Flavor.MARIADB) == [schema("a b")]


def test_a_column_that_may_have_been_there_makes_two_pasts() -> None:
    found = reverse(schema("a b"), [add("b", optional=True)], Flavor.MARIADB)

    assert found is not None
    assert {each.names for each in found} == {("a",), ("a", "b")}


def test_what_cannot_have_led_there_has_no_past() -> None:
    assert reverse(schema("a b"), [add("x")], Flavor.MYSQL) == []
    assert reverse(schema("a b"), [add("a")], Flavor.MYSQL) == []


def test_too_many_pasts_are_none() -> None:
    wide = schema(" ".join(f"c{number}" for number in range(100)))
    drops = [DropColumn(name) for name in "xyz"]

    assert CANDIDATES_MAX < 101 * 102
    assert reverse(wide, drops, Flavor.MYSQL) is None
    assert reverse(wide, [Opaque("?")], Flavor.MYSQL) is None


def test_too_many_pasts_are_not_even_looked_at() -> None:
    drops = [DropColumn(f"x{number}") for number in range(3000)]
    wide = schema(" ".join(f"c{number}" for number in range(900)))
    moves = [change(f"c{number}", f"c{number}", FIRST) for number in range(900)]
    optional = [ChangeColumn(each.old, each.name, Definition(), optional=True) for each in moves]

    assert reverse(schema("a b"), drops, Flavor.MYSQL) is None
    assert reverse(wide, moves, Flavor.MYSQL) is None
    assert reverse(wide, optional, Flavor.MARIADB) is None


def test_a_change_that_found_its_column_was_carried_out() -> None:
    uuid = Definition(SqlType("uuid"))
    after = PartialSchema((PartialColumn("a"), PartialColumn("b", facts_of(uuid))), NO_KEY)
    modify = ChangeColumn("b", "b", uuid, optional=True)

    (past,) = reverse(after, [modify], Flavor.MARIADB) or []

    assert past.columns == (PartialColumn("a"), PartialColumn("b"))


def test_facts_stay_with_their_columns_and_go_with_changes() -> None:
    known = Facts(data_type="int", unsigned=True)
    columns = (PartialColumn("a", known), PartialColumn("b", known), PartialColumn("c", known))
    after = PartialSchema(columns, NO_KEY)

    (past,) = reverse(after, [RenameColumn("x", "a"), change("y", "b")], Flavor.MYSQL) or []

    assert past.columns == (
        PartialColumn("x", known),
        PartialColumn("y"),
        PartialColumn("c", known),
    )


def test_another_character_set() -> None:
    latin1, with_values = Facts("text", charset="latin1"), Facts("enum", charset="latin1")
    number, octets = Facts("int", unsigned=True), Facts("blob", charset="binary")
    before = PartialSchema(
        tuple(map(PartialColumn, "abcd", (latin1, with_values, number, octets))), NO_KEY
    )
    statement = [ConvertCharset("utf8mb4")]

    after = alter(before, statement)
    (past,) = reverse(before, statement, Flavor.MYSQL) or []

    assert after is not None
    assert [each.facts.charset for each in after.columns] == ["utf8mb4", "utf8mb4", None, "binary"]
    # TEXT may have become MEDIUMTEXT.
    assert [each.facts.data_type for each in after.columns] == [None, "enum", "int", "blob"]
    assert [each.facts.charset for each in past.columns] == [None, None, None, "binary"]


@pytest.mark.parametrize(
    ("visible", "names"),
    [(False, ("my_row_id", "x", "a")), (True, ("x", "my_row_id", "a")), (None, None)],
)
def test_the_generated_key_stays_first(
    visible: bool | None,
    names: tuple[str, ...] | None,
) -> None:
    generated_key = PartialColumn("my_row_id", Facts("bigint", visible=visible))

    after = alter(PartialSchema((generated_key, PartialColumn("a")), NO_KEY), [add("x", FIRST)])

    assert (after.names if after else None) == names


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
        (UNIQUE_ID, [RenameColumn("id", "nr"), add("x")], key("nr", primary=False, others=True)),
        (None, [add("x")], None),
        (None, [AddPrimaryKey((("a", 0),))], key("a", others=True)),
    ],
)
def test_the_key_after(before: Key | None, alterations: list[Alteration], after: Key) -> None:
    found = alter(schema("id a", before), alterations)

    assert found is not None
    assert found.key == after


@pytest.mark.parametrize(
    ("after", "alterations", "before"),
    [
        (ID, [RenameColumn("nr", "id")], key("nr", others=True)),
        (ID, [change("nr", "id")], key("nr", others=True)),
        (ID, [AddPrimaryKey((("id", 0),))], NO_KEY),
        (key("id", others=True), [AddPrimaryKey((("id", 0),))], None),
        (ID, [AddPrimaryKey((("id", 0),)), DropPrimaryKey()], None),
        (ID, [DropPrimaryKey()], None),
        (NO_KEY, [change("a", "a")], NO_KEY),
        (NO_KEY, [DropColumn("x")], None),
        (NO_KEY, [ChangeIndexes()], None),
        (UNIQUE_ID, [change("a", "a")], None),
        (UNIQUE_ID, [RenameColumn("nr", "id")], key("nr", primary=False, others=True)),
        (None, [add("a")], None),
    ],
)
def test_the_key_before(after: Key | None, alterations: list[Alteration], before: Key) -> None:
    found = reverse(schema("id a", after), alterations, Flavor.MARIADB)

    assert found
    assert {each.key for each in found} == {before}


@pytest.mark.parametrize(("flavor", "perhaps"), [(Flavor.MYSQL, True), (Flavor.MARIADB, False)])
def test_mysql_takes_dropped_columns_out_of_keys(
    flavor: Flavor,
    perhaps: bool,
) -> None:
    found = reverse(schema("id", ID), [DropColumn("x")], flavor) or []

    assert [{c.name: c.perhaps_key for c in each.columns} for each in found] == [
        {"x": perhaps, "id": False},
        {"id": False, "x": perhaps},
    ]


def test_columns_of_a_new_key_may_have_held_null() -> None:
    known = PartialColumn("id", Facts("int", nullable=False))
    statement = [AddPrimaryKey((("id", 0),))]

    (past,) = reverse(PartialSchema((known,), ID), statement, Flavor.MYSQL) or []
    after = alter(
        PartialSchema((PartialColumn("id", Facts("int", nullable=True)),), NO_KEY), statement
    )

    assert past.columns[0].facts.nullable is None
    assert after is not None
    assert after.columns[0].facts.nullable is False


# ------------------------------------------------------------------- defaults

NULL, SEVEN = Default(None), Default("7")
DEFAULTED = PartialSchema(
    (
        PartialColumn("a", Facts(nullable=True, default=NULL)),
        PartialColumn("b", Facts(nullable=True, default=SEVEN)),
    ),
    NO_KEY,
)


@pytest.mark.parametrize(
    ("alterations", "after", "before"),
    [
        ([ChangeIndexes()], {"a": NULL, "b": SEVEN}, {"a": NULL, "b": SEVEN}),
        ([ConvertCharset("latin1")], {"a": NULL, "b": SEVEN}, {"a": NULL, "b": SEVEN}),
        ([add("c")], {"a": NULL, "b": SEVEN, "c": None}, None),
        ([SetDefault("A")], {"a": None, "b": SEVEN}, {"a": None, "b": SEVEN}),
        ([SetDefault("c")], {"a": NULL, "b": SEVEN}, {"a": NULL, "b": SEVEN}),
        ([change("b", "b")], {"a": NULL, "b": None}, {"a": NULL, "b": None}),
        ([AddPrimaryKey((("b", 0),))], {"a": NULL, "b": None}, {"a": NULL, "b": None}),
        ([RenameColumn("b", "c")], {"a": NULL, "c": SEVEN}, None),
        ([RenameColumn("b", "c"), SetDefault("b")], {"a": NULL, "c": None}, None),
        ([RenameColumn("b", "c"), SetDefault("c")], {"a": NULL, "c": None}, None),
        ([RenameColumn("c", "b")], None, {"a": NULL, "c": SEVEN}),
        ([RenameColumn("c", "b"), SetDefault("b")], None, {"a": NULL, "c": None}),
        ([RenameColumn("c", "b"), SetDefault("c")], None, {"a": NULL, "c": None}),
    ],
)
def test_a_default_stays_until_a_statement_may_have_changed_it(
    alterations: list[Alteration],
    after: dict[str, Default | None] | None,
    before: dict[str, Default | None] | None,
) -> None:
    if after is not None:
        assert defaults(alter(DEFAULTED, alterations)) == after
    if before is not None:
        found = reverse(DEFAULTED, alterations, Flavor.MYSQL)
        assert found is not None
        (previous,) = found
        assert defaults(previous) == before


def defaults(schema: PartialSchema | None) -> dict[str, Default | None]:
    assert schema is not None
    return {column.name: column.facts.default for column in schema.columns}
