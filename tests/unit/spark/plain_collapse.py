"""The collapse of images that lack columns, change by change in Python: what Spark's is held to."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.collapse.partial_rows import DEFAULT, END, MOVED, ROW

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

Key = tuple[Any, ...]


@dataclass(frozen=True)
class Image:
    """One image: its change type, key, and the values that it has."""

    kind: str
    key: Key
    values: Mapping[str, Any]

    @property
    def is_end(self) -> bool:
        return self.kind in ("delete", "update_preimage")


@dataclass
class Left:
    """What the changes of one key leave: the values, and what is not among them."""

    values: dict[str, Any] = field(default_factory=dict)
    deleted: bool = False
    begun: str | None = None
    moves: bool = False

    def lacks(self, columns: Collection[str]) -> str | None:
        if self.moves:
            return MOVED
        if self.deleted or self.values.keys() >= {*columns}:
            return None
        return {None: ROW, "insert": DEFAULT}.get(self.begun, END)


def collapse_plainly(images: Sequence[Image], columns: Collection[str]) -> dict[Key, Left]:
    """Return what is left of images in the order of the log, by key.

    Args:
        images: An after-image follows its before-image.
        columns: Those outside of the key.
    """
    left: dict[Key, Left] = defaultdict(Left)
    for number, image in enumerate(images):
        row = left[image.key]
        if image.kind == "update_preimage":
            after = images[number + 1]
            if after.key == image.key:
                continue
            row.moves |= not after.values.keys() >= {*columns}
        if image.kind != "update_postimage":
            row.values, row.begun = {}, image.kind
        row.deleted = image.is_end
        if not image.is_end:
            row.values |= image.values
    return dict(left)
