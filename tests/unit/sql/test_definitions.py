"""Definitions: what they say of a column, and nothing that they do not."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.sql.columns import SqlType
from airflow_provider_binlog.sql.defaults import NULL_LITERAL, Literal, LiteralKind
from airflow_provider_binlog.sql.definitions import Definition
from airflow_provider_binlog.sql.definitions import read_definition as read
from airflow_provider_binlog.sql.lexer import Session, split_words

NUMBER, STRING = LiteralKind.NUMBER, LiteralKind.STRING


def read_definition(sql: str, sql_mode: int | None = 0) -> Definition:
    session = Session(Flavor.MYSQL, sql_mode=sql_mode)
    words = split_words(sql, session)
    return read(words, session)


TYPES: list[tuple[str, SqlType | None]] = [
    ("int", SqlType("int")),
    ("INTEGER(10) UNSIGNED ZEROFILL NULL", SqlType("int", unsigned=True)),
    ("bigint zerofill", SqlType("bigint", unsigned=True)),
    ("bool", SqlType("tinyint")),
    ("SERIAL", SqlType("bigint", unsigned=True)),
    ("numeric(5,2) unsigned", SqlType("decimal", 5, 2, unsigned=True)),
    ("dec", SqlType("decimal", 10, 0)),
    ("fixed(7)", None),
    ("float(24)", SqlType("float")),
    ("float(30) unsigned", SqlType("double", unsigned=True)),
    ("double precision (7, 3)", SqlType("double", 7, 3)),
    ("real", None),
    ("bit", SqlType("bit", 1)),
    ("year(4)", SqlType("year")),
    ("datetime(3) DEFAULT CURRENT_TIMESTAMP(3)", SqlType("datetime", fsp=3)),
    ("time", SqlType("time")),
    ("varchar(20)", SqlType("varchar", 20)),
    ("varchar(20) character set koi8r", SqlType("varchar", 20, charset="koi8r")),
    ("varchar(20) char set `koi8r`", SqlType("varchar", 20, charset="koi8r")),
    ("varchar(20) charset 'latin1'", SqlType("varchar", 20)),
    ("char(3) collate utf8mb4_general_ci", SqlType("char", 3, charset="utf8mb4")),
    ("char(3) charset utf8", SqlType("char", 3, charset="utf8")),
    ("char varying(3)", None),
    ("national character varying(3)", None),
    ("nchar", None),
    ("char(3) ascii", SqlType("char", 3, charset="latin1")),
    ("char byte", None),
    ("varchar(3) charset binary", None),
    ("text charset binary", None),
    ("binary(16)", SqlType("binary", 16)),
    ("longblob", SqlType("longblob")),
    ("long varbinary", None),
    ("long", None),
    ("text(60)", None),
    ("char(3) BYTE", None),
    ("varchar(3) COLLATE uca1400_ai_ci", SqlType("varchar", 3)),
    ("varchar(3) COLLATE latin1_bin", SqlType("varchar", 3, charset="latin1")),
    ("varchar(3) COLLATE DEFAULT", SqlType("varchar", 3)),
    ("uuid NOT NULL", SqlType("uuid")),
    ("vector(3)", SqlType("vector", 3)),
    ("enum('a','b  ','c,d')", SqlType("enum", values=("a", "b", "c,d"))),
    ('set("a", "b""c") charset latin1', SqlType("set", charset="latin1", values=("a", 'b"c'))),
    (r"enum('a\'b')", SqlType("enum", values=("a'b",))),
    ("enum(x'61')", SqlType("enum")),
    ('enum("a\\\\b")', SqlType("enum", values=("a\\b",))),
    ("int COMMENT 'unsigned'", SqlType("int")),
    ("geometrycollection SRID 4326", SqlType("geomcollection")),
    ("nothing known", None),
    ("decimal(a)", None),
    # As no server allows: a default of them would fill the memory.
    ("binary(256)", None),
    ("bit(65)", None),
    ("decimal(10,4000000000)", None),
    ("float(4000000000,2)", None),
    ("datetime(7)", None),
    ("varchar(4000000000)", SqlType("varchar", 4000000000)),
    ("`int`", None),
]


@pytest.mark.parametrize(("sql", "expected"), TYPES)
def test_types(sql: str, expected: SqlType | None) -> None:
    assert read_definition(sql).type == expected


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        ("int", {"nullable": None, "generated": False, "visible": True, "default": None}),
        ("int NOT NULL", {"nullable": False}),
        ("int NULL DEFAULT 5", {"nullable": True, "default": Literal(NUMBER, "5")}),
        ("int DEFAULT NULL", {"nullable": None, "default": NULL_LITERAL}),
        ("int DEFAULT -1 NOT NULL", {"nullable": False, "default": Literal(NUMBER, "-1")}),
        ("int DEFAULT (a + 1) NULL", {"nullable": True}),
        ("varchar(9) DEFAULT 'a' COMMENT 'c'", {"default": Literal(STRING, "a"), "comment": "c"}),
        ("int COMMENT 'it''s' NOT NULL", {"comment": "it's", "nullable": False}),
        ("int COMMENT ''", {"comment": ""}),
        ("int NOT NULL", {"comment": None}),
        ("int REFERENCES u (a) ON DELETE SET NULL ON UPDATE SET DEFAULT", {"nullable": None}),
        ("int AS (a + 1) VIRTUAL", {"generated": True}),
        ("int GENERATED ALWAYS AS (a) STORED NOT NULL", {"generated": True, "nullable": False}),
        ("int DEFAULT (a + 1)", {"generated": False}),
        ("int INVISIBLE", {"visible": False}),
        ("int COMMENT 'INVISIBLE'", {"visible": True}),
        ("int NOT NULL AUTO_INCREMENT", {"auto_increment": True}),
        ("SERIAL", {"auto_increment": True, "nullable": False}),
        ("int PRIMARY KEY", {"nullable": False}),
        ("timestamp ON UPDATE CURRENT_TIMESTAMP(3) NULL", {"nullable": True, "default": None}),
    ],
)
def test_attributes(sql: str, said: dict[str, Any]) -> None:
    found = read_definition(sql)

    assert {name: getattr(found, name) for name in said} == said


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
    definition = read_definition(sql)

    assert (definition.primary, definition.unique) == (primary, unique)
