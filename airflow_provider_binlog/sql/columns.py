"""The type of a column in SQL, read from text and printed; and a table's columns as far as known.

A statement, `information_schema.COLUMNS.COLUMN_TYPE` and a staged schema write types in one
language, in which one type has several names. Here it has that of `COLUMNS.DATA_TYPE`. Each of the
three says a part of a table; `Facts` takes them all, and is compared with a TABLE_MAP.

Source: mysql-server, sql/sql_yacc.yy, type; mariadb, field_type; what MySQL 9.7 and MariaDB 11.8
print; MySQL 9.7 reference manual, 28.3.8 The INFORMATION_SCHEMA COLUMNS Table; MariaDB
documentation, Data Types.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.sql.lexer import (
    ORACLE,
    Dialect,
    Reader,
    Session,
    Word,
    capitals,
    chunks,
    keyword,
    scan,
)

INTEGERS = {"tinyint": 1, "smallint": 2, "mediumint": 3, "int": 4, "bigint": 8}
"""Size in bytes."""

FLOATS = frozenset({"float", "double"})
NUMBERS = frozenset({*INTEGERS, *FLOATS, "decimal"})
STRINGS = frozenset({"char", "varchar"})
TEXTS = {"tinytext": 1, "text": 2, "mediumtext": 3, "longtext": 4}
"""Size of a length in bytes."""

BLOBS = {"tinyblob": 1, "blob": 2, "mediumblob": 3, "longblob": 4}
BYTES = frozenset({"binary", "varbinary", *BLOBS})
OWN_FORM = frozenset({"inet4", "inet6", "uuid", "vector"})
"""Types that the log writes as bytes, and SELECT in a form of their own."""

YEAR_OF_TWO_DIGITS = "year(2)"
"""A type of MariaDB that is logged as a year of four digits, and selected as one of two."""

TEMPORALS = frozenset({"time", "datetime", "timestamp"})
ENUMS = frozenset({"enum", "set"})
GEOMETRIES = (
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geomcollection"),
)
"""In the order of their numbers in a TABLE_MAP."""


@dataclass(frozen=True, slots=True)
class SqlType:
    """A type with its parameters.

    Attributes:
        name: As `information_schema.COLUMNS.DATA_TYPE` has it.
        length: Of CHAR and VARCHAR in characters, of BINARY and VARBINARY in bytes, of BIT in bits,
            of VECTOR in entries; of DECIMAL, and of FLOAT and DOUBLE where they have them, the
            number of digits. None for the others, and where it is not written.
        scale: Digits after the decimal point, where `length` is digits.
        fsp: Digits of a fraction of a second; 0 for none.
        charset: Of text, ENUM and SET, as written; None where it is not written.
        values: Of ENUM and SET; None where they cannot be read.
    """

    name: str
    length: int | None = None
    scale: int | None = None
    fsp: int = 0
    unsigned: bool = False
    charset: str | None = None
    values: tuple[str, ...] | None = None
    compressed: bool = False

    def __str__(self) -> str:
        """Return the type as a staged schema has it: without its character set."""
        text = self.name + self._parameters()
        text += " unsigned" if self.unsigned else ""
        return f"{text} compressed" if self.compressed else text

    def _parameters(self) -> str:
        if self.values is not None:
            return (
                "(" + ",".join("'" + value.replace("'", "''") + "'" for value in self.values) + ")"
            )
        if self.scale is not None:
            return f"({self.length},{self.scale})"
        number = (self.fsp or None) if self.name in TEMPORALS else self.length
        return "" if number is None else f"({number})"

    @property
    def is_text(self) -> bool:
        """Whether its values are strings of characters."""
        return self.name in STRINGS or self.name in TEXTS


# Without those that are rarely written: NATIONAL, NVARCHAR, LONG, REAL, INT1 to INT8, FLOAT4.
_SYNONYMS = {
    **dict.fromkeys(("BOOL", "BOOLEAN"), "tinyint"),
    "INTEGER": "int",
    "SERIAL": "bigint",
    **dict.fromkeys(("DEC", "NUMERIC"), "decimal"),
    "CHARACTER": "char",
    "GEOMETRYCOLLECTION": "geomcollection",
}
_NAMES = frozenset(
    {
        *(*NUMBERS, *STRINGS, *TEXTS, *BYTES, *OWN_FORM, *TEMPORALS, *ENUMS, *GEOMETRIES),
        *("bit", "year", "date", "json"),
    }
)
_DECIMAL_DIGITS = 10
_YEAR_2 = ("year", 2)
_FLOAT_DIGITS = 24
# Types with a length, and which one without brackets.
_LENGTHS = {"bit": 1, "char": 1, "binary": 1, "varchar": None, "varbinary": None, "vector": 2048}
_DIGITS_MAX = 10
# The greatest number after the type: a value of a default may take as many bytes or digits.
_NUMBER_MAX = {
    "bit": 64,
    **dict.fromkeys(("binary", "char", *FLOATS), 255),
    "decimal": 65,
    **dict.fromkeys(TEMPORALS, 6),
}


def parse_type(text: str, *, escapes: bool = False, charset: str | None = None) -> SqlType | None:
    """Return a type that is printed; None where it is not known, or more follows.

    A backslash escapes in the values of an ENUM that `information_schema` prints, and not in those
    of a staged schema.
    """
    try:
        reader = Reader(list(scan(text, Dialect(Flavor.MARIADB, escapes=escapes))))
        of = _named(reader)
        attributes = reader.take_all("UNSIGNED", "SIGNED", "ZEROFILL", "COMPRESSED")
    except UnsupportedError:
        return None
    if of is None or reader.rest():
        return None
    unsigned = of.unsigned or "UNSIGNED" in attributes or "ZEROFILL" in attributes
    return replace(of, unsigned=unsigned, compressed="COMPRESSED" in attributes, charset=charset)


def read_type(reader: Reader, session: Session) -> SqlType | None:
    """Return the type that a definition begins with, and move past it; None if it is not known.

    `read_definition` reads its attributes: UNSIGNED, CHARACTER SET and the like, in any order.
    """
    oracle = session.flavor is Flavor.MARIADB and session.has(ORACLE)
    if oracle and keyword(reader.peek()) == "DATE":
        return None  # a DATETIME
    return _named(reader)


def _named(reader: Reader) -> SqlType | None:
    """Read a name, and its parameters."""
    word = reader.next()
    if word is None or word.quote:
        return None
    name = capitals(word.text)
    data_type = _SYNONYMS.get(name, name.lower())
    if data_type not in _NAMES or reader.take("VARYING", "VARCHAR", "VARCHARACTER"):
        return None
    if name == "DOUBLE":
        reader.take("PRECISION")
    if data_type in ENUMS:
        return SqlType(data_type, values=_values(reader))
    numbers = _numbers(reader)
    return None if numbers is None else _with_numbers(name, data_type, numbers)


def _with_numbers(name: str, data_type: str, numbers: tuple[int, ...]) -> SqlType | None:
    first = numbers[0] if numbers else None
    if data_type in _NUMBER_MAX and max(numbers, default=0) > _NUMBER_MAX[data_type]:
        return None
    if data_type in ("text", "blob") and first:
        return None  # the smallest type that holds so many characters or bytes
    if data_type in FLOATS:
        return _digits(data_type, numbers)
    of = SqlType(YEAR_OF_TWO_DIGITS if (data_type, first) == _YEAR_2 else data_type)
    if data_type == "decimal":
        scale = numbers[1] if len(numbers) > 1 else 0
        of = SqlType(data_type, first or _DECIMAL_DIGITS, scale)
    elif data_type in TEMPORALS:
        of = SqlType(data_type, fsp=first or 0)
    elif data_type in _LENGTHS:
        of = SqlType(data_type, _LENGTHS[data_type] if first is None else first)
    elif name == "SERIAL":
        of = SqlType(data_type, unsigned=True)
    return of


def _digits(name: str, numbers: tuple[int, ...]) -> SqlType:
    if len(numbers) > 1:
        return SqlType(name, numbers[0], numbers[1])
    # FLOAT(p) is a DOUBLE from 25 on.
    return SqlType("double" if numbers and numbers[0] > _FLOAT_DIGITS else name)


def _numbers(reader: Reader) -> tuple[int, ...] | None:
    """Read `(10,2)`: nothing without brackets; None if something else is in them."""
    inside = reader.skip_brackets()
    if inside is None:
        return ()
    numbers = []
    for chunk in chunks(inside):
        text = chunk[0].text if len(chunk) == 1 and not chunk[0].quote else ""
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            return None
        numbers.append(int(text))
    return tuple(numbers)


def _values(reader: Reader) -> tuple[str, ...] | None:
    """Read `('a', 'b')`; None where a value is no plain string."""
    try:
        inside: Sequence[Word] | None = reader.skip_brackets()
    except UnsupportedError:
        return None
    if not inside:
        return None
    values = []
    for chunk in chunks(inside):
        if len(chunk) != 1 or chunk[0].quote not in ("'", '"') or "\ufffd" in chunk[0].text:
            return None
        # A value loses its spaces at the end.
        values.append(chunk[0].text.rstrip(" "))
    return tuple(values)


@dataclass(frozen=True, slots=True)
class Facts:
    """A column by information_schema, a manifest or a statement; None where that does not say.

    Attributes:
        data_type: The type's name as `information_schema.COLUMNS.DATA_TYPE` has it.
        charset: Of text, ENUM and SET; `binary` for columns that hold bytes.
        octets: The most bytes of a value of CHAR, BINARY, VARCHAR and VARBINARY.
        precision, scale: Of DECIMAL; of BIT the precision alone.
        dimension: The most floats of a VECTOR.
        generated: Whether its values are computed from other columns.
        visible: Whether `SELECT *` shows it.
        default: What an insert leaves in it that does not name it.
        comment: What its definition says in COMMENT.
    """

    data_type: str | None = None
    nullable: bool | None = None
    unsigned: bool | None = None
    charset: str | None = None
    values: tuple[str, ...] | None = None
    octets: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    dimension: int | None = None
    compressed: bool | None = None
    generated: bool | None = None
    auto_increment: bool | None = None
    visible: bool | None = None
    default: Default | None = None
    comment: str | None = None

    def joined(self, other: Facts) -> Facts:
        """Return both: where the two differ, this one's."""
        known = {field.name: getattr(self, field.name) for field in fields(self)}
        return replace(other, **{name: fact for name, fact in known.items() if fact is not None})


UNKNOWN = Facts()


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A column as far as it is known; its field id is 0 where it has none."""

    name: str
    facts: Facts = UNKNOWN
    field: int = 0


@dataclass(frozen=True)
class Key:
    """By which columns the log would name the rows of a table.

    Attributes:
        columns: (name, characters of a prefix or 0) in key order; empty where there is no key.
        primary: Whether it is a primary key; else a unique one is used in its place, or none is.
        others: Whether there are unique keys beside it, or there may be.
    """

    columns: tuple[tuple[str, int], ...]
    primary: bool
    others: bool


@dataclass(frozen=True)
class PartialSchema:
    """A table's columns in order, and its key.

    Attributes:
        columns: Without hidden ones.
        key: None where it is not known.
        hidden: How many hidden columns follow in the log: MariaDB's hashes for unique keys.
        comment: The table's; None where it is not known.
    """

    columns: tuple[PartialColumn, ...]
    key: Key | None
    hidden: int = 0
    comment: str | None = None

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


NO_COLUMNS = PartialSchema((), Key((), primary=False, others=False))
"""Of a table that is being created."""


def same(name: str, other: str) -> bool:
    """Whether two names are of one column: case makes no difference."""
    return fold_name(name) == fold_name(other)
