"""What ALTER TABLE and CREATE TABLE do to a table's columns, its key and its rows: the values.

`alteration_reader.py` reads them.

Source: mysql-server, sql/sql_yacc.yy, alter_list_item and table_element; mariadb, the same.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_binlog.names import fold_name

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.schema import Default, UnknownDefault
    from airflow_provider_binlog.sql.definitions import Definition
    from airflow_provider_binlog.sql.literals import Literal

FIRST = ""
"""In place of the column that another one comes after: no column has an empty name."""


@dataclass(frozen=True)
class AddColumn:
    """`ADD COLUMN name ... [FIRST | AFTER column]`.

    Attributes:
        name: Of the new column.
        definition: What the statement says of it.
        initial_default: What rows hold in it that were there before; in CREATE TABLE, NULL.
        after: The column it comes after, or `FIRST`; None for the end.
        optional: IF NOT EXISTS.
    """

    name: str
    definition: Definition
    initial_default: Default | UnknownDefault
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class DropColumn:
    """`DROP COLUMN name`; optional: IF EXISTS."""

    name: str
    optional: bool = False


@dataclass(frozen=True)
class ChangeColumn:
    """`CHANGE COLUMN old name ...`, and `MODIFY COLUMN name ...`, where both names are the same.

    Attributes:
        old, name: Before and after.
        definition: What the statement says of the column: all that it is now.
        after: As in `AddColumn`; None where it stays.
        optional: IF EXISTS.
    """

    old: str
    name: str
    definition: Definition
    after: str | None = None
    optional: bool = False


@dataclass(frozen=True)
class RenameColumn:
    """`RENAME COLUMN old TO name`; optional: IF EXISTS."""

    old: str
    name: str
    optional: bool = False


@dataclass(frozen=True)
class SetDefault:
    """`ALTER COLUMN name SET DEFAULT ...`, and `DROP DEFAULT`.

    Attributes:
        name: Of the column.
        default: `defaults.read_default` says its value in a column's type; None where it is
            dropped.
        optional: IF EXISTS.
    """

    name: str
    default: Literal | None = None
    optional: bool = False


@dataclass(frozen=True)
class AddPrimaryKey:
    """A primary key is made: (column, characters of a prefix or 0) in key order."""

    columns: tuple[tuple[str, int], ...]


@dataclass(frozen=True)
class DropPrimaryKey:
    """The primary key is dropped."""


@dataclass(frozen=True)
class ChangeIndexes:
    """A unique key is added, or an index is dropped that may be one."""


@dataclass(frozen=True)
class ConvertCharset:
    """`CONVERT TO CHARACTER SET`: of every column of text; None where it names the default."""

    charset: str | None


@dataclass(frozen=True)
class RewriteRows:
    """Rows may have been changed, added or removed, and no row event says which.

    Attributes:
        reason: What the statement did: it completes `the statement ...`.
    """

    reason: str


@dataclass(frozen=True)
class Opaque:
    """Something that may change columns and rows, and is not understood."""

    text: str


Alteration: TypeAlias = (
    AddColumn
    | DropColumn
    | ChangeColumn
    | RenameColumn
    | SetDefault
    | AddPrimaryKey
    | DropPrimaryKey
    | ChangeIndexes
    | ConvertCharset
    | RewriteRows
    | Opaque
)


def new_key(alterations: Iterable[Alteration]) -> set[str]:
    """Return the columns of a primary key that is made, in lower case: they become NOT NULL."""
    made = (each for each in alterations if isinstance(each, AddPrimaryKey))
    return {fold_name(name) for each in made for name, _ in each.columns}
