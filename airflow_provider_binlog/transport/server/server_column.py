"""A column of a server's table, as information_schema describes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Default


@dataclass(frozen=True)
class ServerColumn:
    """A column as `information_schema.COLUMNS` has it.

    Attributes:
        name: The column's name.
        data_type: The type's name alone: `bigint`, `uuid`.
        nullable: Whether it may hold NULL.
        unsigned: Of numbers; False for the others.
        charset: Of text, ENUM and SET; `binary` for columns that hold bytes; None for the others.
        values: Of ENUM and SET; None for the others, and where they cannot be read.
        octets: The most bytes of a value of text or bytes.
        precision, scale: Of numbers; the precision of BIT is its width.
        fsp: Digits of a fraction of a second.
        generated: Whether its values are computed from other columns.
        visible: Whether `SELECT *` shows it.
        default: What an insert leaves in it that does not name it; None if that is not certain.
    """

    name: str
    data_type: str
    nullable: bool
    unsigned: bool = False
    charset: str | None = None
    values: tuple[str, ...] | None = None
    octets: int | None = None
    precision: int | None = None
    scale: int | None = None
    fsp: int | None = None
    generated: bool = False
    visible: bool = True
    default: Default | None = None
