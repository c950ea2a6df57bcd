"""Savepoints: what a statement does with which one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.lexer import ANSI_QUOTES, Session
from airflow_provider_binlog.sql.statement_types import SavepointVerb, read_savepoint

SET, RELEASE, ROLLBACK_TO = SavepointVerb


@pytest.mark.parametrize(
    ("sql", "verb", "name"),
    [
        ("SAVEPOINT `a``b`", SET, "a`b"),
        ('SAVEPOINT "a b"', SET, "a b"),
        ("SAVEPOINT a", SET, "a"),
        ("savepoint /* x */ a", SET, "a"),
        ("RELEASE SAVEPOINT `a`", RELEASE, "a"),
        ("ROLLBACK TO `a`", ROLLBACK_TO, "a"),
        ("ROLLBACK TO SAVEPOINT a", ROLLBACK_TO, "a"),
        ("ROLLBACK WORK TO SAVEPOINT `TO`", ROLLBACK_TO, "TO"),
        (r"SAVEPOINT `a\`", SET, "a\\"),
        ("SAVEPOINT 'a'", SET, None),
        ("SAVEPOINT a b", SET, None),
        ("SAVEPOINT `a", SET, None),
        ("ROLLBACK TO", ROLLBACK_TO, None),
    ],
)
@pytest.mark.parametrize("sql_mode", [0, ANSI_QUOTES, None])
def test_savepoints(sql: str, verb: SavepointVerb, name: str | None, sql_mode: int | None) -> None:
    for flavor in Flavor:
        assert read_savepoint(sql, Session(flavor, sql_mode=sql_mode)) == (verb, name)


@given(st.text("SAVEPOINT `'\"\\ab\n", max_size=30))
def test_any_text_is_read(sql: str) -> None:
    assert read_savepoint(sql, Session(Flavor.MYSQL)).verb in SavepointVerb
