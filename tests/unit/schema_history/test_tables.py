"""Tables keep their ids under every name, and a new one gets a new id."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import (
    CreateTable,
    DropTable,
    RenameTable,
    RewriteRows,
    Schema,
    TableState,
    TruncateTable,
)
from airflow_provider_binlog.schema_history.tables import NO_TABLE, NoTable
from airflow_provider_binlog.sql.lexer import Session
from tests.unit.schema_history.log import Log, T, U, a_table

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName


@pytest.mark.parametrize("statement", ["DROP PARTITION p", "TRUNCATE /*x*/ PARTITION p"])
def test_partitions_take_rows_with_them(statement: str) -> None:
    log = Log()
    log.run("CREATE TABLE t (id INT PRIMARY KEY)")
    log.rows(T, "id int")

    (action,) = log.run(f"ALTER TABLE t {statement}")

    assert isinstance(action, RewriteRows)
    assert log.state(T).created is None


def test_a_created_table_is_complete_and_has_its_columns() -> None:
    log = Log()

    (created,) = log.run("CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(9) DEFAULT 'x')")

    state = log.state(T)
    assert created == CreateTable(state.id, T)
    assert (state.created, state.logged, log.names()) == (7, None, {1: "id", 2: "a"})
    assert log.run("ALTER TABLE t MODIFY a INT")[1:] == []  # there is no value to change
    # A key that the server made is no column that was added.
    assert log.rows(T, "my_row_id bigint", "id int", "a int") == []
    assert log.names() == {3: "my_row_id", 1: "id", 2: "a"}


@pytest.mark.parametrize(
    "chain",
    [
        ["RENAME TABLE t TO u"],
        ["RENAME TABLE t TO v, v TO u"],
        ["ALTER TABLE t RENAME TO u"],
        ["ALTER TABLE t ADD c INT, RENAME AS v", "RENAME TABLE v TO other.w, other.w TO u"],
    ],
)
def test_a_renamed_table_is_the_same(chain: list[str]) -> None:
    log = a_table()
    table = log.state(T).id

    actions = [action for statement in chain for action in log.run(statement)]

    assert log.state(U).id == table
    assert all(each.table == table for each in actions)
    assert [each for each in actions if isinstance(each, RenameTable)][-1].new == U


def test_a_swap_with_a_ghost_table_exchanges_ids() -> None:
    log = a_table()
    log.run("CREATE TABLE _t_gho LIKE t")
    log.run("ALTER TABLE _t_gho ADD c INT")
    table, ghost = log.state(T), log.state(("shop", "_t_gho"))

    actions = log.run("RENAME TABLE t TO _t_del, _t_gho TO t")

    assert actions == [
        RenameTable(table.id, T, ("shop", "_t_del")),
        RenameTable(ghost.id, ("shop", "_t_gho"), T),
    ]
    assert log.state(T).id == ghost.id
    assert log.names() == {1: "id", 2: "a", 3: "b", 4: "c"}
    assert log.run("DROP TABLE _t_del") == [DropTable(table.id, ("shop", "_t_del"))]


@pytest.mark.parametrize(
    "create", ["CREATE TABLE t (id INT)", "CREATE TABLE IF NOT EXISTS t (id INT)"]
)
def test_a_dropped_and_created_table_is_another_one(create: str) -> None:
    log = a_table()
    table = log.state(T).id

    assert log.run("DROP TABLE t") == [DropTable(table, T)]
    assert log.run("DROP TABLE IF EXISTS t") == []
    (created,) = log.run(create)

    assert created.table != table
    assert log.state(T).created == 7


def test_a_replaced_table_is_another_one_though_nothing_is_known_of_the_first() -> None:
    for known in ({}, {T: TableState("0" * 16, T)}):
        log = Log(known=dict(known))

        dropped, created = log.run("CREATE OR REPLACE TABLE t (id INT)")

        assert isinstance(dropped, DropTable)
        assert isinstance(created, CreateTable)
        assert dropped.table != created.table
        assert dropped.name == created.name == T


def test_a_table_that_may_have_been_there_is_not_created() -> None:
    log = Log(known={U: NO_TABLE})

    assert log.run("CREATE TABLE IF NOT EXISTS t (id INT)") == []
    assert [type(each) for each in log.run("CREATE TABLE IF NOT EXISTS u (id INT)")] == [
        CreateTable
    ]
    assert log.run("CREATE TABLE IF NOT EXISTS u (id INT)") == []


def test_a_dropped_database_ends_all_of_its_tables() -> None:
    log = Log(known={U: TableState("0" * 16, U), ("crm", "x"): TableState("1" * 16, ("crm", "x"))})
    log.rows(T, "id int")
    table = log.state(T).id

    assert log.run("CREATE TABLE IF NOT EXISTS v (id INT)") == []

    assert log.run("DROP DATABASE shop") == [DropTable(table, T), DropTable("0" * 16, U)]
    for name in ("v", "other"):
        (created,) = log.run(f"CREATE TABLE IF NOT EXISTS {name} (id INT)")
        assert isinstance(created, CreateTable)
    # What was known is not searched again.
    log.known["shop", "w"] = TableState("1" * 16, ("shop", "w"))
    dropped = log.run("DROP DATABASE shop")
    assert [each.name for each in dropped if isinstance(each, DropTable)] == [
        ("shop", "other"),
        ("shop", "v"),
    ]


def test_a_table_that_comes_from_outside_is_another_one() -> None:
    log = a_table()
    table = log.state(T).id

    (left,) = log.run("RENAME TABLE t TO other.t")
    (came,) = log.run("RENAME TABLE other.t TO t")

    assert left.table == table
    assert came.table != table
    assert log.state(T).schema is None


def test_a_table_made_of_a_partition_has_rows() -> None:
    log = Log(session=Session(Flavor.MARIADB, "shop"))
    log.rows(T, "id int")

    actions = log.run("ALTER TABLE t CONVERT PARTITION p TO TABLE u")

    made = log.state(U)
    assert next(each for each in actions if each.table == made.id) == CreateTable(made.id, U)
    assert any(isinstance(each, RewriteRows) and each.table == made.id for each in actions)
    assert made.created is None
    assert any(isinstance(each, RewriteRows) and each.table != made.id for each in actions)


@pytest.mark.parametrize("known", [{}, {U: NO_TABLE}], ids=["unknown", "dropped"])
def test_a_table_that_is_not_there_is_not_renamed(known: dict[TableName, NoTable]) -> None:
    log = Log(known=dict(known), session=Session(Flavor.MARIADB, "shop"))
    log.rows(T, "id int")

    assert log.run("RENAME TABLE IF EXISTS u TO t") == []


def test_truncation_changes_no_schema() -> None:
    log = a_table()
    state = log.state(T)

    assert log.run("TRUNCATE t") == [TruncateTable(state.id)]
    assert log.state(T) == state


def test_tables_that_are_not_captured_are_not_followed() -> None:
    log = Log()

    assert log.run("CREATE TABLE crm.x (id INT)") == []
    assert log.run("RENAME TABLE crm.x TO crm.y") == []
    assert log.run("DROP TABLE crm.y") == []
    assert log.tables.touched == {}


def test_ids_go_by_where_a_table_begins_alone() -> None:
    one, other = Log(), Log()
    one.rows(T, "id int")
    other.rows(T, "id int")
    other.run("ALTER TABLE t ADD c INT")

    assert one.state(T).id == other.state(T).id


def test_a_state_is_read_back_from_a_schema() -> None:
    log = a_table()
    state = log.state(T)
    later = Log(known={T: state})

    assert later.rows(T, "id int", "a int", "b int") == []
    assert later.state(T) == state
    (touched,) = later.tables.touched.values()
    assert touched.state == touched.before
    assert isinstance(state.schema, Schema)
