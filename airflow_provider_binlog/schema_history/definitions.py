"""A column's definition in SQL: what it says of the column, as far as it says it for certain.

Source: mysql-server, sql/sql_yacc.yy, field_def and column_attribute; mariadb, the same.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.charset_tables import COLLATIONS
from airflow_provider_binlog.schema_history.facts import Facts
from airflow_provider_binlog.schema_history.words import capitals

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.schema_history.words import Word

_SYNONYMS = {
    "BOOL": "tinyint",
    "BOOLEAN": "tinyint",
    "INT1": "tinyint",
    "INT2": "smallint",
    "INT3": "mediumint",
    "MIDDLEINT": "mediumint",
    "INT4": "int",
    "INTEGER": "int",
    "INT8": "bigint",
    "SERIAL": "bigint",
    "DEC": "decimal",
    "NUMERIC": "decimal",
    "FIXED": "decimal",
    "GEOMETRYCOLLECTION": "geomcollection",
}
# Types whose name in a statement is that in the catalogue, whatever follows it. VARCHAR and CHAR
# are not among them: their character set may turn them into VARBINARY and BINARY.
_SAME = (
    *("TINYINT", "SMALLINT", "MEDIUMINT", "INT", "BIGINT", "DECIMAL", "BIT", "YEAR"),
    *("DATE", "TIME", "DATETIME", "TIMESTAMP", "ENUM", "SET", "JSON", "BINARY", "VARBINARY"),
    *("INET4", "INET6", "UUID", "VECTOR", "GEOMETRY", "POINT", "LINESTRING", "POLYGON"),
    *("MULTIPOINT", "MULTILINESTRING", "MULTIPOLYGON", "GEOMCOLLECTION"),
)
_DATA_TYPES = {name: name.lower() for name in _SAME} | _SYNONYMS
_NUMBERS = frozenset(
    {"tinyint", "smallint", "mediumint", "int", "bigint", "decimal", "float", "double", "real"}
)
_BYTES = frozenset({"binary", "varbinary", "blob", "tinyblob", "mediumblob", "longblob"})
_OWN_FORM = frozenset({"inet4", "inet6", "uuid", "vector"})


@dataclass(frozen=True)
class Definition:
    """What a definition says.

    Attributes:
        facts: Of the column.
        primary: Whether it makes the column the primary key.
        unique: Whether it adds another unique key.
    """

    facts: Facts
    primary: bool = False
    unique: bool = False


def read_definition(words: Sequence[Word]) -> Definition:
    """Return what stands behind a column's name, without FIRST and AFTER."""
    texts = outer_texts(words)
    kind = texts[0] if texts else ""
    data_type = _DATA_TYPES.get(kind)
    written = data_type or kind.lower()
    unsigned = None
    if written in _NUMBERS:
        unsigned = kind == "SERIAL" or "UNSIGNED" in texts or "ZEROFILL" in texts
    labels = _labels(words) if written in ("enum", "set") else None
    charset = "binary" if written in _BYTES | _OWN_FORM else _charset(texts)
    primary, unique = _keys(texts, serial=kind == "SERIAL")
    generated = "GENERATED" in texts or ("AS" in texts)
    facts = Facts(
        data_type=data_type,
        unsigned=unsigned,
        charset=charset,
        labels=labels,
        generated=generated,
        visible="INVISIBLE" not in texts,
    )
    return Definition(facts, primary, unique)


def outer_texts(words: Sequence[Word]) -> list[str]:
    """Return the words outside of brackets in capitals: quoted ones empty, brackets as `(`."""
    texts, depth = [], 0
    for text, quote in words:
        opens, closes = not quote and text == "(", not quote and text == ")"
        if depth == 0 and not closes:
            texts.append("" if quote else capitals(text))
        depth += opens - closes
    return texts


def _labels(words: Sequence[Word]) -> tuple[str, ...] | None:
    """Return the labels of `ENUM('a', 'b')`; None where they are not written as plain texts."""
    if len(words) < 2 or words[1].text != "(" or words[1].quote:
        return None
    labels = []
    for index, (text, quote) in enumerate(words[2:]):
        if index % 2 == 0:
            # A label loses its spaces at the end, and a backslash between double quotes is not
            # read here.
            if not quote or quote == "`" or "\ufffd" in text or (quote == '"' and "\\" in text):
                return None
            labels.append(text.rstrip(" "))
        elif not quote and text == ")":
            return tuple(labels)
        elif quote or text != ",":
            return None
    return None


def _charset(texts: Sequence[str]) -> str | None:
    """Return the character set that is named; a set of two names is none."""
    for index, text in enumerate(texts[:-1]):
        named = texts[index + 1].lower()
        if text == "SET" and index and texts[index - 1] in ("CHARACTER", "CHAR"):
            return named if named in COLLATIONS else None
        if text == "CHARSET":
            return named if named in COLLATIONS else None
        if text == "COLLATE":
            charset = re.split("_", named)[0]
            return charset if charset in COLLATIONS else None
    return None


def _keys(texts: Sequence[str], *, serial: bool) -> tuple[bool, bool]:
    """Return whether the column becomes the primary key, and whether it gets another one."""
    primary, unique = False, serial
    for before, text in zip(["", *texts], texts, strict=False):
        if text == "PRIMARY" or (text == "KEY" and before not in ("UNIQUE", "PRIMARY")):
            primary = True
        if text == "UNIQUE" or (text == "SERIAL" and before != ""):
            unique = True
    return primary, unique
