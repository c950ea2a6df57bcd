"""TableFilter: globs of database.table, and the server's own databases only when named."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import ConfigurationError


@pytest.mark.parametrize(
    ("include", "exclude", "database", "table", "captured"),
    [
        (["shop.*"], [], "shop", "orders", True),
        (["shop.*"], [], "Shop", "orders", False),
        (["shop.*"], [], "shop2", "orders", False),
        (["shop.orders"], [], "shop", "orders", True),
        (["shop.orders"], [], "shop", "orders_old", False),
        (["shop.*", "crm.people"], ["*.tmp_*"], "crm", "people", True),
        (["shop.*"], ["*.tmp_*"], "shop", "tmp_1", False),
        (["*.*"], [], "shop", "orders", True),
        (["*.*"], [], "mysql", "user", False),
        (["*.*"], [], "sys", "x", False),
        (["mysql.*"], [], "mysql", "user", True),
        (["mysql.user"], [], "mysql", "db", False),
        (["m*.*"], [], "mysql", "user", False),
        (["shop.a.b"], [], "shop", "a.b", True),
        (["shop.a.b"], [], "shop.a", "b", True),
        (["shop.tag[12]"], [], "shop", "tag1", True),
    ],
)
def test_matches(
    include: list[str], exclude: list[str], database: str, table: str, captured: bool
) -> None:
    assert TableFilter(include, exclude).matches(database, table) is captured


@pytest.mark.parametrize(
    ("include", "database", "may"),
    [
        (["shop.*"], "shop", True),
        (["shop.orders"], "shop", True),
        (["shop.orders"], "shop2", False),
        (["shop.*"], "sho", False),
        (["*.orders"], "shop", True),
        (["s*p.orders"], "shop", True),
        (["s*p.orders"], "crm", False),
        # A dot of the glob need not be the one between database and table.
        (["shop.a.b"], "shop.a", True),
        (["*a.b"], "shop", True),
    ],
)
def test_may_match_in(include: list[str], database: str, may: bool) -> None:
    assert TableFilter(include).may_match_in(database) is may


_NAMES = st.text("ab.*", min_size=1, max_size=4)


@given(st.builds(lambda a, b: f"{a}.{b}", _NAMES, _NAMES), _NAMES, _NAMES)
def test_a_database_with_a_captured_table_may_match(glob: str, database: str, table: str) -> None:
    tables = TableFilter([glob])

    assert tables.may_match_in(database) or not tables.matches(database, table)


@pytest.mark.parametrize(("include", "exclude"), [([], []), (["orders"], []), (["a.b"], ["c"])])
def test_what_is_no_filter_is_refused(include: list[str], exclude: list[str]) -> None:
    with pytest.raises(ConfigurationError):
        TableFilter(include, exclude)


def test_databases_that_may_be_captured_from() -> None:
    tables = TableFilter(["*.*", "shop.orders"], ["old.*", "shop.x"])
    names = ["shop", "other", "old", "mysql"]

    assert [each for each in names if tables.may_capture_from(each)] == ["shop", "other"]
    assert tables.databases == {"shop"}
    assert TableFilter(["mysql.user"]).may_capture_from("mysql")


@given(st.lists(st.builds(lambda a, b: f"{a}.{b}", _NAMES, _NAMES), max_size=2), _NAMES, _NAMES)
def test_a_captured_table_may_be_captured_from_its_database(
    exclude: list[str], database: str, table: str
) -> None:
    tables = TableFilter(["*.*"], exclude)

    assert tables.may_capture_from(database) or not tables.matches(database, table)


_HEARTBEAT = (
    "INSERT INTO mysql.rds_heartbeat2(id, value) values (1,1393029075007) "
    "ON DUPLICATE KEY UPDATE value = 1393029075007"
)


@pytest.mark.parametrize(
    ("include", "sql", "databases", "left_out"),
    [
        # MySQL, whose events name the databases.
        (["*.*"], _HEARTBEAT, ("mysql",), True),
        (["*.*"], "INSERT INTO t VALUES (1)", ("mysql", "shop"), False),
        (["mysql.*"], _HEARTBEAT, ("mysql",), False),
        (["shop.*"], "UPDATE t SET a = 1", ("crm",), True),
        (["shop.*"], "CREATE TABLE t SELECT 1", ("crm",), False),
        # MariaDB, whose events do not.
        (["*.*"], _HEARTBEAT, None, True),
        (["*.*"], "insert into rds_heartbeat2(id) values (1)", None, True),
        (["*.*"], "DELETE FROM mysql.rds_sysinfo where name = 'innodb_txn_key'", None, True),
        (["mysql.*"], _HEARTBEAT, None, False),
        (["*.*"], "INSERT INTO shop.rds_orders VALUES (1)", None, False),
        (["*.*"], "INSERT INTO mysql.orders VALUES (1)", None, False),
        (["*.*"], "UPDATE mysql.rds_heartbeat2, shop.orders SET value = 1", None, False),
        (["*.*"], "DELETE FROM mysql.rds_a, shop.orders USING mysql.rds_a", None, False),
        (["*.*"], "DELETE FROM", None, False),
    ],
)
def test_statements_that_change_no_captured_table(
    include: list[str], sql: str, databases: tuple[str, ...] | None, *, left_out: bool
) -> None:
    query = Query(7, "mysql", 0, sql, databases=databases)

    assert TableFilter(include).leaves_out(query) is left_out
