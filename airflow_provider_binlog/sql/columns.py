"""The type of a column in SQL, read from text and printed; and a table's columns as far as known.

A statement, `information_schema.COLUMNS.COLUMN_TYPE` and a staged schema write types in one
language, in which one type has several names. Here it has the one that
`information_schema.COLUMNS.DATA_TYPE` has. Each of the three says a part of a table; one value
takes them all, so that they can be joined, and compared with what a TABLE_MAP says.

Source: mysql-server, sql/sql_yacc.yy, type; mariadb, field_type; what MySQL 9.7 and MariaDB 11.8
print; MySQL 9.7 reference manual, 28.3.8 The INFORMATION_SCHEMA COLUMNS Table; MariaDB
documentation, Data Types.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import Default  # noqa: TC001  `from_json` evaluates it.
from airflow_provider_binlog.sql.lexer import (
    ORACLE,
    REAL_AS_FLOAT,
    Dialect,
    Reader,
    capitals,
    chunks,
    keyword,
    scan,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.sql.lexer import Session, Word

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
        unsigned: Of numbers.
        charset: Of text, ENUM and SET, as written; None where it is not written.
        values: Of ENUM and SET; None where they cannot be read.
        compressed: `COMPRESSED` of MariaDB.
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
            return "(" + ",".join("'" + each.replace("'", "''") + "'" for each in self.values) + ")"
        if self.scale is not None:
            return f"({self.length},{self.scale})"
        number = (self.fsp or None) if self.name in TEMPORALS else self.length
        return "" if number is None else f"({number})"

    @property
    def is_text(self) -> bool:
        """Whether its values are strings of characters."""
        return self.name in STRINGS or self.name in TEXTS


_SYNONYMS = {
    **dict.fromkeys(("BOOL", "BOOLEAN", "INT1"), "tinyint"),
    "INT2": "smallint",
    **dict.fromkeys(("INT3", "MIDDLEINT"), "mediumint"),
    **dict.fromkeys(("INT4", "INTEGER"), "int"),
    **dict.fromkeys(("INT8", "SERIAL"), "bigint"),
    **dict.fromkeys(("DEC", "NUMERIC", "FIXED"), "decimal"),
    "FLOAT4": "float",
    "FLOAT8": "double",
    "VARCHARACTER": "varchar",
    "CHARACTER": "char",
    "LONG": "mediumtext",
    "GEOMETRYCOLLECTION": "geomcollection",
}
_NAMES = frozenset(
    {
        *(*NUMBERS, *STRINGS, *TEXTS, *BYTES, *OWN_FORM, *TEMPORALS, *ENUMS, *GEOMETRIES),
        *("bit", "year", "date", "json"),
    }
)
_NATIONAL = {"NCHAR": "char", "NVARCHAR": "varchar"}
# The text types by the greatest length in bytes, and as many bytes as a character has at most.
_SIZES = ((1 << 8, 1), (1 << 16, 2), (1 << 24, 3), (1 << 32, 4))
_CHARACTER_MAX = 4
_DECIMAL_DIGITS = 10
_YEAR_2 = ("year", 2)
_FLOAT_DIGITS = 24
_VECTOR_ENTRIES = 2048
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

    Args:
        text: `decimal(10,2) unsigned`.
        escapes: Whether a backslash escapes in the values of ENUM and SET: COLUMN_TYPE of
            `information_schema` has escapes, a staged schema has none.
        charset: The column's.
    """
    words = list(scan(text, Dialect(Flavor.MARIADB, escapes=escapes)))
    if not words or words[-1] is not None:
        return None
    reader = Reader([word for word in words if word is not None])
    try:
        found = _named(reader)
        unsigned, compressed = False, False
        while (word := reader.take("UNSIGNED", "SIGNED", "ZEROFILL", "COMPRESSED")) is not None:
            unsigned |= word in ("UNSIGNED", "ZEROFILL")
            compressed |= word == "COMPRESSED"
    except UnsupportedError:
        return None
    if found is None or reader.rest():
        return None
    return replace(
        found, unsigned=found.unsigned or unsigned, compressed=compressed, charset=charset
    )


def read_type(reader: Reader, session: Session) -> SqlType | None:
    """Return the type that a definition begins with, and move past it; None if it is not known.

    Its attributes UNSIGNED, ZEROFILL, CHARACTER SET, COLLATE, BINARY and the like are read, in any
    order, by `read_definition`.
    """
    first = keyword(reader.peek())
    if reader.take("REAL"):
        name = _real(session)
        digits = _numbers(reader)
        return _digits(name, digits) if name and digits is not None else None
    if first == "DATE" and session.flavor is Flavor.MARIADB and session.has(ORACLE):
        return None  # a DATETIME
    return _named(reader)


def _real(session: Session) -> str | None:
    as_float = session.has(REAL_AS_FLOAT)
    return None if as_float is None else "float" if as_float else "double"


def _named(reader: Reader) -> SqlType | None:
    """Read a name of one or more words, and its parameters."""
    national = reader.take("NATIONAL") is not None
    word = reader.next()
    if word is None or word.quote:
        return None
    name = capitals(word.text)
    charset = None
    if name in _NATIONAL or national:
        name, charset = _NATIONAL.get(name, name).upper(), "utf8mb3"
    data_type = _SYNONYMS.get(name, name.lower())
    if data_type == "char" and reader.take("VARYING", "VARCHAR", "VARCHARACTER"):
        data_type = "varchar"
    elif name == "DOUBLE":
        reader.take("PRECISION")
    elif name == "LONG":
        data_type = _long(reader)
    if data_type not in _NAMES:
        return None
    if data_type in ENUMS:
        return SqlType(data_type, values=_values(reader))
    numbers = _numbers(reader)
    if numbers is None:
        return None
    found = _with_numbers(name, data_type, numbers)
    return found if charset is None or found is None else replace(found, charset=charset)


def _long(reader: Reader) -> str:
    """Return what LONG, LONG VARCHAR, LONG CHAR VARYING and LONG VARBINARY stand for."""
    if reader.take("VARBINARY"):
        return "mediumblob"
    if reader.take("CHAR", "CHARACTER"):
        reader.take("VARYING")
    else:
        reader.take("VARCHAR", "VARCHARACTER")
    return "mediumtext"


def _with_numbers(name: str, data_type: str, numbers: tuple[int, ...]) -> SqlType | None:
    first = numbers[0] if numbers else None
    if data_type in _NUMBER_MAX and max(numbers, default=0) > _NUMBER_MAX[data_type]:
        return None
    if data_type in ("text", "blob") and first:
        return _sized(data_type, first)
    if data_type in FLOATS:
        return _digits(data_type, numbers)
    found = SqlType(YEAR_OF_TWO_DIGITS if (data_type, first) == _YEAR_2 else data_type)
    if data_type == "decimal":
        scale = numbers[1] if len(numbers) > 1 else 0
        found = SqlType(data_type, first or _DECIMAL_DIGITS, scale)
    elif data_type in TEMPORALS:
        found = SqlType(data_type, fsp=first or 0)
    elif data_type in ("bit", "char", "binary"):
        found = SqlType(data_type, 1 if first is None else first)
    elif data_type in ("varchar", "varbinary"):
        found = SqlType(data_type, first)
    elif data_type == "vector":
        found = SqlType(data_type, _VECTOR_ENTRIES if first is None else first)
    elif name == "SERIAL":
        found = SqlType(data_type, unsigned=True)
    return found


def _digits(name: str, numbers: tuple[int, ...]) -> SqlType:
    if len(numbers) > 1:
        return SqlType(name, numbers[0], numbers[1])
    # FLOAT(p) is a DOUBLE from 25 on.
    return SqlType("double" if numbers and numbers[0] > _FLOAT_DIGITS else name)


def _sized(data_type: str, length: int) -> SqlType | None:
    """Return the smallest type that holds a length; None if the character set decides."""
    size = length * (_CHARACTER_MAX if data_type == "text" else 1)
    names = list(TEXTS if data_type == "text" else BLOBS)
    for (bound, _), name in zip(_SIZES, names, strict=True):
        if size < bound:
            return SqlType(name)
        if length < bound:
            return None
    return None


def _numbers(reader: Reader) -> tuple[int, ...] | None:
    """Read `(10,2)`: nothing without brackets; None if something else is in them."""
    inside = reader.skip_brackets()
    if inside is None:
        return ()
    found = []
    for chunk in chunks(inside):
        text = chunk[0].text if len(chunk) == 1 and not chunk[0].quote else ""
        if not (text.isascii() and text.isdecimal() and len(text) <= _DIGITS_MAX):
            return None
        found.append(int(text))
    return tuple(found)


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
    """What information_schema, a manifest or a statement says of a column; None where it does not.

    Attributes:
        data_type: The type's name as `information_schema.COLUMNS.DATA_TYPE` has it.
        nullable: Whether it may hold NULL.
        unsigned: Of numbers.
        charset: Of text, ENUM and SET; `binary` for columns that hold bytes.
        values: Of ENUM and SET.
        octets: The most bytes of a value of CHAR, BINARY, VARCHAR and VARBINARY.
        precision, scale: Of DECIMAL; of BIT the precision alone.
        fsp: Digits of a fraction of a second.
        dimension: The most floats of a VECTOR.
        compressed: Whether it has the attribute COMPRESSED of MariaDB.
        generated: Whether its values are computed from other columns.
        auto_increment: Whether the server numbers its values.
        visible: Whether `SELECT *` shows it.
        default: What an insert leaves in it that does not name it.
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

    def joined(self, other: Facts) -> Facts:
        """Return both: where the two differ, this one's."""
        known = {each.name: getattr(self, each.name) for each in fields(self)}
        return replace(other, **{name: fact for name, fact in known.items() if fact is not None})


UNKNOWN = Facts()


@dataclass(frozen=True, slots=True)
class PartialColumn:
    """A column as far as it is known.

    Attributes:
        name: Always known.
        facts: What else is known.
        field: Its field id; 0 where it has none.
    """

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
    """

    columns: tuple[PartialColumn, ...]
    key: Key | None
    hidden: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The columns' names, in order."""
        return tuple(column.name for column in self.columns)


NO_COLUMNS = PartialSchema((), Key((), primary=False, others=False))
"""Of a table that is being created."""


def same(name: str, other: str) -> bool:
    """Whether two names are of one column: case makes no difference."""
    return fold_name(name) == fold_name(other)
