"""Schemas with identity, and the actions that change them, in the terms of the Iceberg spec.

A *table id* survives RENAME TABLE and ends with DROP TABLE. A *field id* survives a rename, a
change of type and a reordering, and is never used again in its table. A *schema id* names one list
of fields with one key. Readers of a manifest map by id and fold actions; none reads SQL.
"""

from __future__ import annotations

import dataclasses
import hashlib
import re
from dataclasses import dataclass, field
from typing import ClassVar, TypeAlias

from airflow_provider_binlog.stored_json import LEFT_OUT, stored_as

TableName: TypeAlias = tuple[str, str]
"""Database and table, as the server has them."""

TableId: TypeAlias = str
"""16 hex digits, from `new_table_id`."""

Origin: TypeAlias = tuple[str, str, str]
"""Database, table and column by which the options exclude or hash a column."""

_ID_DIGITS = 16


def new_table_id(server: str, file: str, offset: int, name: TableName) -> TableId:
    """Return the id of a table that is created, or first seen, at an event of a server's log.

    The same log gives the same id in every retry, wherever the range of the retry stops.
    """
    text = "\0".join((server, file, str(offset), *name))
    return hashlib.sha256(text.encode()).hexdigest()[:_ID_DIGITS]


@dataclass(frozen=True)
class Default:
    """A value that a column holds although no statement gave it one.

    Attributes:
        value: As SELECT prints it, TIMESTAMP in UTC; of binary columns their bytes in hex digits;
            None for NULL.
    """

    value: str | None


NULL = Default(None)


@dataclass(frozen=True)
class UnknownDefault:
    """The log does not say which value older rows hold in a field: `not known: <reason>`."""

    reason: str = field(metadata=stored_as("unknown"))


@dataclass(frozen=True)
class Field:
    """One column of a table in one schema.

    Attributes:
        id: The field id.
        name: The column's name.
        mysql_type: The type as SQL writes it: `decimal(10,2)`, `bigint unsigned`; None where
            neither a row nor the statement that added the field or changed its type says it.
        arrow_type: The type of the staged values as Arrow prints it: `decimal128(10, 2)`; None
            where no row has been logged since a statement added the field or changed its type.
        nullable: Whether the column may hold NULL.
        charset: Character set of text, ENUM and SET columns; None for the others.
        initial_default: What rows from before the field was added hold; None for a field that is as
            old as its table, or as what is staged of it.
        write_default: What an insert leaves in the column if its image lacks it; None if unknown.
        charset_assumed: Whether `charset` is that from before a statement which names none.
        generated: Whether its values are known to be computed from other columns.
        auto_increment: Whether the server is known to number its values.
        primary: Whether it is known to be in a primary key, and not in a unique key in its place.
        origin: The name by which the options exclude or hash it; None for a column that is staged
            as it is.
        hashed: Id of the secret with which its values, and its defaults, are hashed; None where
            they are not.
        comment: What its definition says in COMMENT; empty where a statement took that away; None
            where it says nothing, or the definition is not known.
    """

    id: int
    name: str
    mysql_type: str | None
    arrow_type: str | None
    nullable: bool
    charset: str | None = None
    initial_default: Default | UnknownDefault | None = field(default=None, metadata=LEFT_OUT)
    write_default: Default | None = field(default=None, metadata=LEFT_OUT)
    charset_assumed: bool = field(default=False, metadata=LEFT_OUT)
    generated: bool = field(default=False, metadata=LEFT_OUT)
    auto_increment: bool = field(default=False, metadata=LEFT_OUT)
    primary: bool = field(default=False, metadata=LEFT_OUT)
    origin: Origin | None = field(default=None, metadata=LEFT_OUT)
    hashed: str | None = field(default=None, metadata=LEFT_OUT)
    comment: str | None = field(default=None, metadata=LEFT_OUT)

    @property
    def excluded(self) -> bool:
        """Whether nothing of its values is staged."""
        return self.origin is not None and self.hashed is None


@dataclass(frozen=True)
class ExcludedField:
    """A column that is not staged, and its index among all columns of the table."""

    index: int
    field: Field


@dataclass(frozen=True)
class Schema:
    """One list of fields, and a key.

    Manifests have the fields that are staged, and beside them what capture has to know of the
    others. Capture follows a table with all of its fields.

    Attributes:
        id: The schema id: counts from 1 and is never used again in the table.
        fields: In the table's order.
        key: Field ids of the primary key in key order; empty where the table has none.
        excluded: Fields that are left out of `fields`, in the table's order.
        comment: The table's COMMENT; None where there is none, or it is not known.
    """

    id: int
    fields: tuple[Field, ...]
    key: tuple[int, ...]
    excluded: tuple[ExcludedField, ...] = field(default=(), metadata=LEFT_OUT)
    comment: str | None = field(default=None, metadata=LEFT_OUT)

    @property
    def has_origins(self) -> bool:
        """Whether any of its fields is protected."""
        # Of thousands of tables, a step for each field would be felt.
        return bool([own for own in self.fields if own.origin is not None])

    @property
    def whole(self) -> Schema:
        """The schema with all fields of the table among `fields`."""
        fields = list(self.fields)
        for left_out in self.excluded:
            fields.insert(left_out.index, left_out.field)
        return (
            dataclasses.replace(self, fields=tuple(fields), excluded=()) if self.excluded else self
        )

    @property
    def staged(self) -> Schema:
        """The schema with the fields alone that are staged; no key where it has another one."""
        excluded = [
            (index, own)
            for index, own in enumerate(self.fields)
            if own.origin is not None and own.excluded
        ]
        if not excluded:
            return self
        ids = {own.id for _, own in excluded}
        return dataclasses.replace(
            self,
            fields=tuple(own for own in self.fields if own.id not in ids),
            key=() if ids.intersection(self.key) else self.key,
            excluded=tuple(ExcludedField(index, own) for index, own in excluded),
        )

    @property
    def key_names(self) -> tuple[str, ...]:
        """The names of the key's columns, in key order."""
        names = {field.id: field.name for field in self.fields}
        return tuple(names[field_id] for field_id in self.key)


@dataclass(frozen=True)
class TableState:
    """State of a table at one point of the log, carried from range to range.

    Attributes:
        id: The table id.
        name: Its name there.
        created: Number of the manifest that holds its `CreateTable`; None where the table is older
            than what is staged of it.
        schema: Its schema; None where nothing is known of it.
        last_field_id: The highest field id that was ever used; 0 for none.
        logged: Id of the last schema in which rows were logged, or that a snapshot has, or that
            differs from such a one in comments alone; None where there was no row yet.
    """

    id: TableId
    name: TableName
    created: int | None = None
    schema: Schema | None = None
    last_field_id: int = 0
    logged: int | None = None

    @property
    def is_confirmed(self) -> bool:
        """Whether rows were logged in its schema, and no statement changed it since."""
        return self.schema is not None and self.schema.id == self.logged

    @property
    def is_partial(self) -> bool:
        """Whether its schema has those columns only that statements have named."""
        return self.logged is None and self.created is None


@dataclass(frozen=True)
class CreateTable:
    """A table came into being without rows. The log holds every row of it from here on."""

    type: ClassVar[str] = "create_table"
    table: TableId
    name: TableName


@dataclass(frozen=True)
class DropTable:
    """The table ends here, and its id with it."""

    type: ClassVar[str] = "drop_table"
    table: TableId
    name: TableName


@dataclass(frozen=True)
class TruncateTable:
    """Every row of the table was removed."""

    type: ClassVar[str] = "truncate_table"
    table: TableId


@dataclass(frozen=True)
class RenameTable:
    """The table has another name from here on."""

    type: ClassVar[str] = "rename_table"
    table: TableId
    old: TableName
    new: TableName


@dataclass(frozen=True)
class AddField:
    """A column was added; its `initial_default` stands in the schemas that have the field.

    Attributes:
        optional: Whether the table may have had the column, and was left as it was: the statement
            says IF NOT EXISTS, and no row has been logged that shows the columns.
    """

    type: ClassVar[str] = "add_field"
    table: TableId
    field: int
    name: str
    optional: bool = dataclasses.field(default=False, metadata=LEFT_OUT)


@dataclass(frozen=True)
class DropField:
    """A column was dropped; its field id is not used again."""

    type: ClassVar[str] = "drop_field"
    table: TableId
    field: int
    name: str


@dataclass(frozen=True)
class RenameField:
    """A column has another name from here on."""

    type: ClassVar[str] = "rename_field"
    table: TableId
    field: int
    old: str
    new: str


@dataclass(frozen=True)
class AlterField:
    """A column's type, nullability or place changed, and no row's value with it.

    A change that may have changed values is a `RewriteRows` beside this action.

    Attributes:
        before, after: The types as SQL writes them; None where not known.
    """

    type: ClassVar[str] = "alter_field"
    table: TableId
    field: int
    name: str
    before: str | None
    after: str | None


@dataclass(frozen=True)
class SetKey:
    """The primary key changed: field ids in key order; empty where it was dropped."""

    type: ClassVar[str] = "set_key"
    table: TableId
    key: tuple[int, ...]


@dataclass(frozen=True)
class RewriteRows:
    """Rows may have changed, and no row event says which and how.

    Attributes:
        reason: What the statement did, for people: it completes `the statement ...`, or begins with
            `the options`.
        field: The field whose values it concerns; None for whole rows.
    """

    type: ClassVar[str] = "rewrite_rows"
    table: TableId
    reason: str
    field: int | None = None


@dataclass(frozen=True)
class QuarantineTable:
    """Changes of the table are not staged in this manifest; the next one tries again."""

    type: ClassVar[str] = "quarantine_table"
    table: TableId
    reason: str


_LEFT_OUT = re.compile(r"(?<!or )\bleave the table out\b", re.IGNORECASE)


def ends_by_reload(reason: str) -> bool:
    """Return whether a table that has this reason is to be reloaded; else only to be left out."""
    return _LEFT_OUT.search(reason) is None


Action: TypeAlias = (
    CreateTable
    | DropTable
    | TruncateTable
    | RenameTable
    | AddField
    | DropField
    | RenameField
    | AlterField
    | SetKey
    | RewriteRows
    | QuarantineTable
)
