"""The collapse of images that lack columns, change by change in Python: what Spark's is held to."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.collapse.partial_rows import DEFAULT, END, MOVED, REMOVED, ROW

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Image:
    """One image: its change type, key, the values that it has, and what is held of the change."""

    kind: str
    key: Key
    values: Mapping[str, Any]
    held: Mapping[str, Any] = field(default_factory=dict)
    is_based: bool = False

    @property
    def is_end(self) -> bool:
        return self.kind in ("delete", "update_preimage")


@dataclass
class Left:
    """What the changes of one key leave: the values, and what is not among them.

    It is `removed` if it is deleted, and no row of the table since the segment's base.
    """

    values: dict[str, Any] = field(default_factory=dict)
    held: Mapping[str, Any] = field(default_factory=dict)
    deleted: bool = False
    begun: str | None = None
    moves: bool = False
    removed: bool = False

    def lacks(self, columns: Collection[str], deletes: str = "hard") -> str | None:
        if self.moves:
            return MOVED
        is_removed = self.deleted and deletes != "soft"
        if is_removed or self.values.keys() >= {*columns}:
            return None
        if self.begun == "insert":
            return DEFAULT
        if self.deleted:
            return REMOVED
        return ROW if self.begun is None else END


def collapse_plainly(
    images: Sequence[Image], columns: Collection[str], deletes: str = "hard"
) -> dict[Key, Left]:
    """Return what is left of images in the order of the log, by key.

    Args:
        images: An after-image follows its before-image.
        columns: Those outside of the key.
        deletes: As of `TableMode`: a key without changes that are not ignored is deleted.
    """
    left: dict[Key, Left] = {}
    for number, image in enumerate(images):
        row = left.setdefault(image.key, Left(deleted=deletes == "ignore"))
        if image.kind == "update_preimage":
            after = images[number + 1]
            if after.key == image.key:
                continue
            row.moves |= not after.values.keys() >= {*columns}
        if image.is_end and deletes == "ignore":
            continue
        row.held, row.removed = image.held, image.is_end and image.is_based
        is_back = row.deleted and deletes == "soft"
        if image.kind == "insert" or is_back:
            row.values, row.begun = {}, "insert" if image.kind == "insert" else "delete"
        elif image.is_end and deletes == "hard":
            row.values, row.begun = {}, image.kind
        row.deleted = image.is_end
        if not image.is_end or deletes == "soft":
            row.values |= image.values
    return left
