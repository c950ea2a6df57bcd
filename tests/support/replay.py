"""Rows as staged changes make them: applied one after another, each to what it must find there."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from typing import Any

from airflow_provider_binlog.changes import ChangeType

Row = dict[str, Any]
Key = tuple[Any, ...]


class DifferenceError(AssertionError):
    """The staged changes are not what happened."""


class TableRows:
    """The rows of one table.

    Attributes:
        key: Names of the primary key's columns; none: the table has no key, and rows may be equal.
    """

    def __init__(self, key: tuple[str, ...] = ()) -> None:
        self.key = key
        self._rows: defaultdict[Key, list[Row]] = defaultdict(list)
        self._moved: Row | None = None

    def __iter__(self) -> Iterator[Row]:
        """Yield the rows, in no order."""
        for rows in self._rows.values():
            yield from rows

    def set_key(self, key: tuple[str, ...]) -> None:
        """Give the table another primary key."""
        if key != self.key:
            rows, self.key = list(self), key
            self._rows.clear()
            for row in rows:
                self._add(row)

    def clear(self) -> None:
        """Remove all rows."""
        self._rows.clear()

    def by_key(self) -> dict[Key, Row]:
        """Return the rows of a table with a key by their keys."""
        return {key: row for key, (row,) in self._rows.items()}

    def apply(self, change: str, image: Row, defaults: Mapping[str, Any]) -> None:
        """Apply one change.

        Args:
            change: Its type.
            image: The columns that its row image has.
            defaults: Values of a new row's columns that its image leaves out.

        Raises:
            DifferenceError: A row is inserted twice, or the changed one is not there.
        """
        match ChangeType(change):
            case ChangeType.INSERT:
                self._add({**defaults, **image})
            case ChangeType.DELETE:
                self._take(image)
            case ChangeType.UPDATE_PREIMAGE:
                self._moved = self._take(image)
            case ChangeType.UPDATE_POSTIMAGE:
                if self._moved is None and not self.key:
                    raise DifferenceError(f"no before-image of a row without a key: {image}")
                # The before-image is left out only where the key did not change.
                row = self._moved or self._take({name: image[name] for name in self.key})
                self._moved = None
                self._add(row | image)

    def _add(self, row: Row) -> None:
        key = tuple(row[name] for name in self.key)
        if self.key and key in self._rows:
            raise DifferenceError(f"there twice: {row}")
        self._rows[key].append(row)

    def _take(self, image: Row) -> Row:
        """Remove the row that has these values."""
        key = tuple(image[name] for name in self.key)
        rows = self._rows.get(key, [])
        for index, row in enumerate(rows):
            if all(name in row and row[name] == value for name, value in image.items()):
                if len(rows) == 1:
                    del self._rows[key]
                return rows.pop(index)
        raise DifferenceError(f"a change of a row that is not there: {image}, but {rows[:1]}")
