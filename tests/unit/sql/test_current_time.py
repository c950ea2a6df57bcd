"""CURRENT_TIMESTAMP of a statement, as the value that its old rows get."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default, UnknownDefault
from airflow_provider_binlog.sql.definitions import (
    initial_default,
    read_definition,
    write_default,
)
from airflow_provider_binlog.sql.lexer import Session, split_words

SESSION = Session(
    Flavor.MYSQL, sql_mode=0, seconds=1_795_382_096, microseconds=12_345, time_zone="-03:30"
)


def initial(definition: str, session: Session = SESSION) -> Default | UnknownDefault:
    words = split_words(definition, session)
    return initial_default(read_definition(words, session), session)


@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "2026-11-22 21:14:56"),
        ("TIMESTAMP DEFAULT now() ON UPDATE NOW()", "2026-11-22 21:14:56"),
        ("TIMESTAMP(2) NULL DEFAULT LOCALTIME(2)", "2026-11-22 21:14:56.01"),
        ("DATETIME DEFAULT LOCALTIMESTAMP()", "2026-11-22 17:44:56"),
        ("DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6)", "2026-11-22 17:44:56.012345"),
    ],
)
def test_it_is_the_time_at_which_the_statement_started(definition: str, value: str) -> None:
    assert initial(definition) == Default(value)


@pytest.mark.parametrize(
    "definition",
    [
        "TIMESTAMP(3) NULL DEFAULT CURRENT_TIMESTAMP",
        "DATE DEFAULT CURRENT_TIMESTAMP",
        "VARCHAR(30) DEFAULT CURRENT_TIMESTAMP",
        "DATETIME DEFAULT (NOW())",
        "DATETIME DEFAULT (NOW() + INTERVAL 1 DAY)",
        "DATETIME DEFAULT UTC_TIMESTAMP()",
        "DATETIME DEFAULT NOW",
    ],
)
def test_other_expressions_stay_unknown(definition: str) -> None:
    assert isinstance(initial(definition), UnknownDefault)


@pytest.mark.parametrize("zone", [None, "SYSTEM", "Europe/Berlin"])
def test_a_datetime_needs_an_offset_and_a_timestamp_does_not(zone: str | None) -> None:
    session = replace(SESSION, time_zone=zone)

    assert isinstance(initial("DATETIME DEFAULT NOW()", session), UnknownDefault)
    assert initial("TIMESTAMP NULL DEFAULT NOW()", session) == Default("2026-11-22 21:14:56")
    utc = replace(SESSION, time_zone="UTC")
    assert initial("DATETIME DEFAULT NOW()", utc) == Default("2026-11-22 21:14:56")


def test_what_the_log_does_not_say_is_unknown() -> None:
    without = replace(SESSION, microseconds=None)

    assert isinstance(initial("TIMESTAMP(3) DEFAULT NOW(3)", without), UnknownDefault)
    assert isinstance(initial("TIMESTAMP DEFAULT NOW()", Session(Flavor.MYSQL)), UnknownDefault)


def test_a_later_insert_has_another_time() -> None:
    words = split_words("DATETIME DEFAULT NOW()", SESSION)
    literal = split_words("INT DEFAULT 7", SESSION)

    assert write_default(read_definition(words, SESSION), SESSION) is None
    assert write_default(read_definition(literal, SESSION), SESSION) == Default("7")
