"""Random column definitions, and values that a column may take, as SQL writes them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from random import Random

_TYPES = (
    *("INT", "INT", "INT UNSIGNED", "BIGINT", "BIGINT", "BIGINT UNSIGNED", "TINYINT", "TINYINT(1)"),
    *("SMALLINT", "MEDIUMINT UNSIGNED", "DECIMAL(9,2)", "DECIMAL(12,2)", "DECIMAL(9,4)"),
    *("DECIMAL(20,0)", "DECIMAL(40,3)", "FLOAT", "DOUBLE", "VARCHAR(20)", "VARCHAR(20)"),
    *("VARCHAR(40)", "VARCHAR(3)", "VARCHAR(20) CHARACTER SET latin1", "CHAR(10)", "CHAR(20)"),
    *("TEXT", "LONGTEXT", "VARCHAR(30) COLLATE utf8mb4_bin", "TEXT CHARACTER SET ucs2"),
    *(
        "BINARY(4)",
        "BINARY(8)",
        "BINARY(5)",
        "VARBINARY(8)",
        "VARBINARY(16)",
        "VARBINARY(9)",
        "BLOB",
        "BIT(1)",
        "BIT(8)",
    ),
    *("BIT(16)", "DATE", "DATETIME", "DATETIME(6)", "TIMESTAMP NULL", "TIMESTAMP(3) NULL"),
    *("TIMESTAMP", "TIME", "TIME(3)", "YEAR", "ENUM('a','b','c')", "ENUM('a','b','c','d')"),
    *("ENUM('c','b','a')", "ENUM('a','b','c') CHARACTER SET latin1", "SET('x','y')"),
    *("SET('x','y','z')", "JSON"),
)
_UNCLEAR = frozenset({"BINARY(4)", "VARBINARY(8)", "VARBINARY(16)"})
_KEY_TYPES = (
    *("INT", "INT", "INT", "BIGINT", "BIGINT UNSIGNED", "SMALLINT", "DECIMAL(20,0)", "DOUBLE"),
    *("VARCHAR(20)", "VARCHAR(20) CHARACTER SET latin1", "CHAR(10)", "BINARY(5)", "VARBINARY(9)"),
    *("VARCHAR(30) COLLATE utf8mb4_bin", "DATE", "DATETIME(6)", "TIMESTAMP(3)", "TIME(3)"),
    *("ENUM('a','b','c')", "YEAR", "BIT(8)"),
)
_DEFAULTS = {
    "int": ("7", "-1", "NULL"),
    "decimal": ("1.50", "0", "NULL"),
    "float": ("1.5", "NULL"),
    "char": ("'it''s'", "''", "'a '", "NULL"),
    "bytes": ("'ab'", "x'00ff'", "NULL"),
    "bit": ("b'1'", "NULL"),
    "date": ("'2026-11-21'", "NULL"),
    "datetime": ("'2026-11-21 01:02:03'", "CURRENT_TIMESTAMP", "NULL"),
    "time": ("'-01:02:03'", "NULL"),
    "year": ("2026", "NULL"),
    "enum": ("'b'", "NULL"),
    "set": ("'y,x'", "''", "NULL"),
    "other": ("NULL",),
}
_FAMILIES = {
    **dict.fromkeys(("tinyint", "smallint", "mediumint", "int", "bigint"), "int"),
    **dict.fromkeys(("float", "double"), "float"),
    **dict.fromkeys(("char", "varchar", "tinytext", "text", "mediumtext", "longtext"), "char"),
    **dict.fromkeys(("binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"), "bytes"),
    **dict.fromkeys(("datetime", "timestamp"), "datetime"),
    **{name: name for name in ("decimal", "bit", "date", "time", "year", "enum", "set")},
}
_VALUES = {
    "int": ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "100", "-1", "2147483647"),
    "decimal": ("0", "1", "2", "3.25", "-4.5", "99.99", "1234567"),
    "float": ("0", "1", "2", "-1.5", "0.1", "1e9"),
    "char": (
        *("''", "'a'", "'A'", "'a '", "'b'", "'é'", "'日本'", "'it''s'", "'1'", "'2'", "'12'"),
        *("'2026-11-21'", "'😀'", "'ab\\\\'", "'[1,  2]'", "'x'"),
    ),
    "bytes": ("x''", "x'00'", "'a'", "'a '", "'abcd'", "x'6100'", "x'ff00ff'"),
    "bit": ("b'0'", "b'1'"),
    "date": ("'2026-11-21'", "'1969-12-31'", "'9999-12-31'", "'2024-02-29'", "'0000-00-00'"),
    "datetime": (
        *("'2026-11-21 01:02:03.999999'", "'2024-02-29'", "'1970-01-02 00:00:00'"),
        *("'2037-01-01 12:00:00.5'", "'2026-11-21 01:02:04'", "'0000-00-00 00:00:00'"),
    ),
    "time": ("'00:00:00'", "'-12:34:56.789'", "'838:59:59'", "'01:02:03.5'"),
    "year": ("1901", "2026", "2155"),
    "enum": ("1", "2", "3"),
    "set": ("0", "1", "2", "3"),
    "json": ("""'{"b":1,"a":[2]}'""", "'[1,  2]'", "'null'"),
    "uuid": ("'123e4567-e89b-12d3-a456-426655440000'", "UUID()"),
    "inet6": ("'::1'", "'2001:db8::1'"),
    "inet4": ("'10.0.0.1'", "'255.0.0.1'"),
}


@dataclass(frozen=True)
class Column:
    """A column as information_schema shows it.

    Attributes:
        name: Its name.
        data_type: Such as `varchar`.
        nullable: Whether it may hold NULL.
        generated: Whether the server computes it.
        changes: Empty: its type may become one that no expression fits.
    """

    name: str
    data_type: str
    nullable: bool
    generated: bool
    changes: tuple[str, ...] = ()

    @property
    def required(self) -> bool:
        """Whether an insert has to name it, unless it has a default."""
        return not self.nullable

    def value(self, random: Random) -> str:
        """Return a value; a server may refuse it."""
        if random.random() < (0.15 if self.nullable else 0.01):
            return "NULL"
        family = _FAMILIES.get(self.data_type, self.data_type)
        return random.choice(_VALUES.get(family, ("NULL",)))


class Definitions:
    """Makes definitions and values for one kind of server."""

    def __init__(self, random: Random, *, mariadb: bool, generated: bool) -> None:
        """Begin.

        Args:
            random: What decides.
            mariadb: Whether the server is MariaDB.
            generated: Whether columns may be computed by the server.
        """
        self._random, self._generated = random, generated
        # Where a type of MariaDB may be one of two, a statement after the rows makes it unknown.
        self._types = tuple(each for each in _TYPES if not mariadb or each not in _UNCLEAR)

    def type(self) -> str:
        """Return a column type."""
        return self._random.choice(self._types)

    def key_type(self) -> str:
        """Return a type that a primary key may have."""
        return self._random.choice(_KEY_TYPES)

    def definition(self) -> str:
        """Return a type and attributes; a server may refuse them."""
        random, of = self._random, self.type()
        roll = random.random()
        if roll < 0.03:
            return random.choice(("INT AUTO_INCREMENT UNIQUE", "SERIAL", "TIMESTAMP NOT NULL"))
        if roll < 0.08:
            return f"{of.removesuffix(' NULL')} {self._expression()}"
        null = random.choice(("", "", " NULL", " NOT NULL", " NOT NULL"))
        if null:
            of = of.removesuffix(" NULL")
        default = ""
        if random.random() < 0.6:
            default = f" DEFAULT {random.choice(_DEFAULTS[_FAMILIES.get(_name(of), 'other')])}"
        rest = ("", "", "", "", "", "", " INVISIBLE", " COMMENT 'DROP COLUMN id, DROP PARTITION p'")
        return f"{of}{null}{default}{random.choice(rest)}"

    def _expression(self) -> str:
        expression = self._random.choice(("1 + 1", "CONCAT('a', 'b')", "UUID()", "RAND()", "n + 1"))
        if not self._generated or self._random.random() < 0.5:
            return f"DEFAULT ({expression})"
        # Virtual, these would have another value whenever a row is read.
        kinds = ("STORED",) if expression in ("UUID()", "RAND()") else ("VIRTUAL", "STORED")
        return f"AS ({expression}) {self._random.choice(kinds)}"


def _name(of: str) -> str:
    return of.partition("(")[0].partition(" ")[0].lower()
