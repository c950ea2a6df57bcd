"""Which columns the staged row images hold.

`_image` counts the sets of one table in one manifest; a merge reads many manifests. Here their sets
become those of one schema, with numbers of their own.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ReloadNeededError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from airflow_provider_binlog.schema import Schema


@dataclass(frozen=True)
class RowImages:
    """The sets of columns that the rows of parts in one schema hold.

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
        """Whether each of the sets holds a column of the schema."""
        return tuple(column in each for each in self.sets)


def find_images(schema: Schema, listed: Mapping[int, Sequence[Sequence[int]]]) -> RowImages | None:
    """Return the row images of a schema; None if each of them holds every column.

    A table's list is that of all its schemas: an image that is whole in an earlier schema may be a
    part of this one, as far as the manifest says.

    Args:
        schema: The schema.
        listed: `images` of the table, by the number of the manifest.
    """
    names = {each.id: each.name for each in schema.fields}
    whole = frozenset(names.values())
    sets: dict[frozenset[str], int] = {}
    numbers = {
        sequence: tuple(
            sets.setdefault(frozenset(names[each] for each in image if each in names), len(sets))
            for image in images
        )
        for sequence, images in listed.items()
    }
    if all(each == whole for each in sets):
        return None
    first, last = min(numbers), max(numbers)
    rows = tuple(numbers.get(sequence, ()) for sequence in range(first, last + 1))
    return RowImages(first, rows, tuple(sets))


def refuse_missing_key(
    images: RowImages, key: Iterable[str], defaults: Mapping[str, str], table: str
) -> None:
    """Refuse row images that do not identify their row.

    Raises:
        ReloadNeededError: One lacks a column of the key, and it is not known what an insert leaves
            there.
    """
    lost = [name for name in key if not all(images.holds(name)) and name not in defaults]
    if lost:
        raise ReloadNeededError(
            "a row image lacks columns of the key: merge the table by its primary key, or set "
            "binlog_row_image=FULL at the source; then reload the table",
            table=table,
            columns=",".join(lost),
        )
