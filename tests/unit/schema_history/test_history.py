"""Histories: tables are followed through statements, under whatever names."""

from __future__ import annotations

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.ddl_reader import changes_of
from airflow_provider_binlog.schema_history.history import Backwards, History, Lost
from airflow_provider_binlog.sql.partial_schema import Facts, Key, PartialColumn, PartialSchema
from tests.support.statements import a_statement

INT = Facts("int", unsigned=False)


def schema(names: str) -> PartialSchema:
    columns = tuple(PartialColumn(each, INT) for each in names.split())
    return PartialSchema(columns, Key(((columns[0].name, 0),), primary=True, others=False))


def history(*statements: str, last: dict[str, str], first: dict[str, str] | None = None) -> History:
    """Return what is known over statements at the rows 10, 20, 30 ..."""
    changes = [
        change
        for number, sql in enumerate(statements, start=1)
        for change in changes_of(a_statement(sql, row=10 * number, offset=100 * number))
    ]

    def at_end(name: tuple[str, str]) -> Backwards:
        return (schema(last[name[1]]),) if name[1] in last else Lost("not there")

    return History(
        changes,
        [("shop", name) for name in (*last, "t")],
        first={("shop", name): schema(names) for name, names in (first or {}).items()},
        last=at_end,
        flavor=Flavor.MYSQL,
    )


def before(found: History, table: str, row: int) -> list[str] | str:
    """Return the schemas that a table may have had by what came after, or why there is none."""
    known, _ = found.at(("shop", table), row)
    return known.reason if isinstance(known, Lost) else [" ".join(each.names) for each in known]


def after(found: History, table: str, row: int) -> str | None:
    """Return the schema that a table had by what came before."""
    _, known = found.at(("shop", table), row)
    return None if known is None else " ".join(known.names)


def test_a_table_that_nothing_changes() -> None:
    found = history("ALTER TABLE u ADD x int", last={"t": "id a"}, first={"t": "id a"})

    assert found.bounds(("shop", "t")) == []
    assert before(found, "t", 5) == before(found, "t", 15) == ["id a"]
    assert after(found, "t", 15) == "id a"


def test_statements_are_reversed_and_applied() -> None:
    found = history(
        "ALTER TABLE t ADD b int AFTER id",
        "ALTER TABLE t RENAME COLUMN a TO c",
        last={"t": "id b c"},
        first={"t": "id a"},
    )

    assert found.bounds(("shop", "t")) == [10, 20]
    assert [before(found, "t", row) for row in (5, 10, 15, 20, 25)] == [
        ["id a"],
        ["id b a"],
        ["id b a"],
        ["id b c"],
        ["id b c"],
    ]
    assert [after(found, "t", row) for row in (5, 15, 25)] == ["id a", "id b a", "id b c"]


def test_names_are_followed() -> None:
    found = history(
        "RENAME TABLE t TO w, u TO t, w TO u", last={"t": "k v", "u": "id a"}, first={"t": "id a"}
    )

    assert before(found, "t", 5) == ["id a"]
    assert before(found, "u", 5) == ["k v"]
    assert before(found, "t", 15) == ["k v"]
    assert after(found, "u", 15) == "id a"
    assert after(found, "t", 15) is None


def test_a_copy_shows_the_table_that_it_was_created_like() -> None:
    # gh-ost
    found = history(
        "CREATE TABLE g LIKE t",
        "ALTER TABLE g ADD z int FIRST",
        "RENAME TABLE t TO d, g TO t",
        "DROP TABLE d",
        last={"t": "z id a"},
    )

    assert before(found, "t", 5) == before(found, "t", 25) == ["id a"]
    assert before(found, "g", 15) == ["id a"]
    assert before(found, "t", 35) == ["z id a"]
    assert "dropped at binlog.000001:400" in before(found, "d", 35)


def test_a_table_that_was_dropped_is_lost_but_for_what_came_before() -> None:
    found = history(
        "CREATE TABLE t (id int PRIMARY KEY, a int)",
        "ALTER TABLE t ADD b int",
        "DROP TABLE t",
        "CREATE TABLE t (k int PRIMARY KEY)",
        last={"t": "k"},
    )

    assert "dropped at binlog.000001:300" in before(found, "t", 15)
    assert [after(found, "t", row) for row in (5, 15, 25, 35, 45)] == [
        None,
        "id a",
        "id a b",
        None,
        "k",
    ]
    assert before(found, "t", 45) == ["k"]


def test_a_database_takes_its_tables_with_it() -> None:
    found = history("DROP DATABASE shop", last={"t": "id"}, first={"t": "id"})

    assert "dropped at" in before(found, "t", 5)
    assert before(found, "t", 15) == ["id"]
    assert after(found, "t", 15) is None


def test_a_table_that_was_there_already_was_not_made() -> None:
    found = history("CREATE TABLE IF NOT EXISTS t (k int)", last={"t": "id a"}, first={"t": "id a"})

    assert before(found, "t", 5) == before(found, "t", 15) == ["id a"]
    assert after(found, "t", 15) == "id a"


def test_a_table_that_was_replaced_is_another() -> None:
    found = history("CREATE OR REPLACE TABLE t (k int PRIMARY KEY)", last={"t": "k"})

    assert "dropped" in before(found, "t", 5)
    assert after(found, "t", 15) == before(found, "t", 15)[0] == "k"


def test_what_is_not_understood_is_not_reversed() -> None:
    found = history("ALTER TABLE t ADD SYSTEM VERSIONING", last={"t": "id"}, first={"t": "id"})

    assert "at binlog.000001:100 changed is not clear" in before(found, "t", 5)
    assert before(found, "t", 15) == ["id"]
    assert (after(found, "t", 5), after(found, "t", 15)) == ("id", None)


def test_a_contradiction_is_named() -> None:
    found = history("ALTER TABLE t ADD x int", last={"t": "id"})

    assert "at binlog.000001:100 cannot have led to" in before(found, "t", 5)


def test_mysql_may_add_a_key_to_a_table_without_one() -> None:
    found = history("CREATE TABLE t (a int)", last={"t": "a"})

    assert after(found, "t", 15) is None
