"""Which columns the staged row images hold, and what inserts leave in those that theirs lack.

`_image` counts the sets of one table in one manifest; a merge reads many manifests. Here their sets
become those of one shape, numbered anew.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.staged.types import spark_type

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.manifest import Column, Schema

_TIME = re.compile(r"(-?)(\d+):(\d\d):(\d\d)(?:\.(\d{1,6}))?", re.ASCII)


@dataclass(frozen=True)
class ShapeImages:
    """The sets of columns that the rows of parts in one shape hold.

    Attributes:
        first: Number of the first manifest in `numbers`.
        numbers: For every manifest from `first` on, what `_image` stands for: by it, an index into
            `sets`. Empty for a manifest without such parts.
        sets: Names of columns.
    """

    first: int
    numbers: tuple[tuple[int, ...], ...]
    sets: tuple[frozenset[str], ...]

    def holds(self, column: str) -> tuple[bool, ...]:
        """Whether each of the sets holds a column of the shape."""
        return tuple(column in each for each in self.sets)


def maybe_images(
    schema: Schema, listed: Mapping[int, Sequence[Sequence[str]]]
) -> ShapeImages | None:
    """Return the row images of a shape; None if each of them holds every column.

    A table's list is that of all its shapes: an image that is whole in an earlier shape may be a
    part of this one, as far as the manifest tells.

    Args:
        schema: The shape.
        listed: `images` of the table, by the number of the manifest.
    """
    whole = frozenset(column.name for column in schema.columns)
    sets: dict[frozenset[str], int] = {}
    numbers = {
        sequence: tuple(sets.setdefault(whole.intersection(image), len(sets)) for image in images)
        for sequence, images in listed.items()
    }
    if all(each == whole for each in sets):
        return None
    first, last = min(numbers), max(numbers)
    rows = tuple(numbers.get(sequence, ()) for sequence in range(first, last + 1))
    return ShapeImages(first, rows, tuple(sets))


def refuse_lost_key(
    images: ShapeImages,
    key: Iterable[str],
    defaults: Mapping[str, str],
    context: Mapping[str, str],
) -> None:
    """Refuse row images by which their row cannot be told.

    Raises:
        MergeError: One lacks a column of the key, and it is not known what an insert leaves there.
    """
    lost = [name for name in key if not all(images.holds(name)) and name not in defaults]
    if lost:
        raise MergeError(
            "a row image lacks columns of the key: merge the table by its primary key, or set "
            "binlog_row_image=FULL at the source",
            **context,
            columns=",".join(lost),
        )


def default_values(schema: Schema) -> dict[str, str]:
    """Return what inserts leave in columns, as SQL, where the manifest knows it."""
    return {column.name: _value(column) for column in schema.columns if column.default is not None}


def _value(column: Column) -> str:
    text = column.default.value if column.default is not None else None
    type_ = spark_type(column.arrow_type)
    if text is None:
        return f"CAST(NULL AS {type_})"
    if type_ == "binary":
        return f"unhex({quote_text(text)})"
    if type_ == "bigint" and column.mysql_type.lower().partition("(")[0] == "time":
        return f"{_microseconds(column, text)}L"
    return f"CAST({quote_text(text)} AS {type_})"


def _microseconds(column: Column, text: str) -> int:
    """Return a TIME as it is staged."""
    match = _TIME.fullmatch(text)
    if match is None:
        raise MergeError("the default of a TIME is none", column=column.name, default=text)
    sign, hours, minutes, seconds, fraction = match.groups()
    whole = (int(hours) * 60 + int(minutes)) * 60 + int(seconds)
    value = whole * 1_000_000 + int((fraction or "").ljust(6, "0"))
    return -value if sign else value
