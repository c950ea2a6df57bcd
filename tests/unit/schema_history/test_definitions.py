"""Definitions: what they say of a column, and nothing that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.definitions import read_definition
from airflow_provider_binlog.schema_history.words import split_words


@pytest.mark.parametrize(
    ("sql", "facts"),
    [
        ("int", {"data_type": "int", "unsigned": False}),
        ("INTEGER(10) UNSIGNED ZEROFILL NULL", {"data_type": "int", "unsigned": True}),
        ("bigint zerofill", {"data_type": "bigint", "unsigned": True}),
        ("SERIAL", {"data_type": "bigint", "unsigned": True}),
        ("numeric(5,2) unsigned", {"data_type": "decimal", "unsigned": True}),
        # What FLOAT(30), REAL and TEXT(70000) become, depends.
        ("float(30) unsigned", {"data_type": None, "unsigned": True}),
        ("real", {"data_type": None, "unsigned": False}),
        ("text(70000)", {"data_type": None, "charset": None}),
        ("varchar(20)", {"data_type": None, "charset": None}),
        ("varchar(20) character set koi8r", {"charset": "koi8r"}),
        ("varchar(20) charset 'latin1'", {"charset": None}),
        ("char(3) collate utf8mb4_general_ci", {"charset": "utf8mb4"}),
        # utf8 is one of two.
        ("char(3) charset utf8", {"charset": None}),
        ("varchar(3) charset binary", {"charset": "binary"}),
        ("binary(16)", {"data_type": "binary", "charset": "binary"}),
        ("longblob", {"data_type": None, "charset": "binary"}),
        ("uuid NOT NULL", {"data_type": "uuid", "charset": "binary"}),
        ("vector(3)", {"data_type": "vector", "charset": "binary"}),
        ("enum('a','b  ','c,d')", {"labels": ("a", "b", "c,d"), "charset": None}),
        ('set("a", "b""c")', {"labels": ("a", 'b"c')}),
        (r"enum('a\'b')", {"labels": ("a'b",)}),
        ("enum(x'61')", {"labels": None}),
        ('enum("a\\\\b")', {"labels": None}),
        ("int AS (a + 1) VIRTUAL", {"generated": True}),
        ("int GENERATED ALWAYS AS (a) STORED", {"generated": True}),
        ("int DEFAULT (a + 1)", {"generated": False}),
        ("int INVISIBLE", {"visible": False}),
        ("int COMMENT 'unsigned'", {"unsigned": False, "visible": True}),
        ("nothing known", {"data_type": None, "unsigned": None, "charset": None}),
    ],
)
def test_facts(sql: str, facts: dict[str, Any]) -> None:
    (words,) = split_words(sql, Flavor.MYSQL, sql_mode=0)

    found = read_definition(words).facts

    assert {name: getattr(found, name) for name in facts} == facts


@pytest.mark.parametrize(
    ("sql", "primary", "unique"),
    [
        ("int PRIMARY KEY", True, False),
        ("int KEY", True, False),
        ("int UNIQUE", False, True),
        ("int UNIQUE KEY", False, True),
        ("int UNIQUE PRIMARY KEY", True, True),
        ("SERIAL", False, True),
        ("int SERIAL DEFAULT VALUE", False, True),
        ("int REFERENCES u (`KEY`) COMMENT 'PRIMARY'", False, False),
    ],
)
def test_keys(sql: str, primary: bool, unique: bool) -> None:
    (words,) = split_words(sql, Flavor.MYSQL, sql_mode=0)

    definition = read_definition(words)

    assert (definition.primary, definition.unique) == (primary, unique)
