"""A table's columns and key as far as they are known, and what says so.

information_schema, a staged schema and a statement each say a part of it. One value takes them all,
so that they can be joined, and compared with what a TABLE_MAP says.

Source: MySQL 9.7 reference manual, 28.3.8 The INFORMATION_SCHEMA COLUMNS Table; MariaDB
documentation, Data Types.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, NamedTuple

from airflow_provider_binlog.names import fold_name

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Default


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


class PartialColumn(NamedTuple):
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
