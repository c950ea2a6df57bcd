"""A glob that matches no table fails the first run, and is warned of later."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources.next_range import check_globs

LOGGED = {("shop", "orders")}
THERE = {("shop", "orders"), ("shop", "items"), ("crm", "people")}


class Shown:
    """A log whose server shows these tables, and counts how often it is queried."""

    def __init__(self, *tables: TableName) -> None:
        self.tables = tables
        self.queries = 0

    def table_names(self) -> tuple[TableName, ...]:
        self.queries += 1
        return self.tables


def check(log: Any, sequence: int, *include: str, exclude: tuple[str, ...] = ()) -> None:
    tables = TableFilter(include, exclude)
    logger = logging.getLogger("globs")
    check_globs(logger, "shop", tables, log.table_names)(sequence, LOGGED)


@pytest.mark.parametrize(
    ("include", "exclude", "globs"),
    [
        (("shop.orders", "shop.Items"), (), "shop.Items"),
        (("shop.*", "crm2.*"), ("shop.tmp_*",), "crm2.*"),
        (("shop.*",), ("shop.tmp", "shop.tmp_*"), "shop.tmp"),
    ],
)
def test_the_first_run_fails(
    include: tuple[str, ...], exclude: tuple[str, ...], globs: str
) -> None:
    with pytest.raises(ConfigurationError, match="match no table") as raised:
        check(Shown(*THERE), 1, *include, exclude=exclude)

    assert raised.value.context == {"globs": globs}


def test_a_glob_to_exclude_that_matches_nothing_is_warned_of_once(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for sequence in (1, 2):
        check(Shown(*THERE), sequence, "shop.*", exclude=("*.tmp_*",))

    assert caplog.text.count("globs match no table") == 1
    assert "globs=*.tmp_*)" in caplog.text


def test_a_later_run_warns(caplog: pytest.LogCaptureFixture) -> None:
    check(Shown(*THERE), 2, "shop.*", "crm2.*")

    assert "globs match no table" in caplog.text
    assert "globs=crm2.*)" in caplog.text


@pytest.mark.parametrize("shown", [(), (("mysql", "user"), ("sys", "sys_config"))])
def test_an_account_that_sees_no_tables_is_warned(
    shown: tuple[TableName, ...], caplog: pytest.LogCaptureFixture
) -> None:
    check(Shown(*shown), 1, "shop.*", "crm.*")

    assert "globs=crm.*)" in caplog.text


def test_the_first_run_lists_the_tables(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO)

    check(Shown(*THERE), 1, "shop.*", "crm.*", exclude=("shop.items",))

    assert "captures 2 tables: crm.people, shop.orders" in caplog.text


def test_the_server_is_queried_only_if_the_log_does_not_suffice() -> None:
    log = Shown(*THERE)

    check(log, 2, "shop.*")
    assert log.queries == 0
    check(log, 2, "shop.*", "crm.people")
    assert log.queries == 1
