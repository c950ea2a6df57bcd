"""What the manifest will say of one table, as its parts are written."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.manifest import TableChanges
from airflow_provider_binlog.rows.images.partial import first_rows

if TYPE_CHECKING:
    from collections.abc import Sequence
    from concurrent.futures import Future
    from functools import partial

    import numpy.typing as npt

    from airflow_provider_binlog.manifest import Part
    from airflow_provider_binlog.rows.decode import DecodedRows
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.schema_history.tables import TableInRange
    from airflow_provider_binlog.staging.part_writer import WrittenPart


@dataclass
class ManifestEntry:
    """A table of the range.

    Attributes:
        schemas: Those that its parts have, by their ids.
        images: The number of each set of columns that row images have, by the fields' ids.
        parts: Each as it will be made of what is known of its file once that is written.
        unrepresentable, invalid_text: How many values no lake type holds, by column.
    """

    schemas: dict[int, Schema] = field(default_factory=dict)
    images: dict[tuple[int, ...], int] = field(default_factory=dict)
    parts: list[tuple[partial[Part], Future[WrittenPart]]] = field(default_factory=list)
    unrepresentable: Counter[str] = field(default_factory=Counter)
    invalid_text: Counter[str] = field(default_factory=Counter)

    def count(self, rows: DecodedRows) -> None:
        """Add what was replaced in some rows."""
        self.unrepresentable.update(rows.unrepresentable)
        self.invalid_text.update(rows.invalid_text)

    def number_images(
        self, schema: Schema, image: npt.NDArray[np.int32], images: Sequence[tuple[int, ...]]
    ) -> npt.NDArray[np.int32]:
        """Return each row's number of its set of columns; new sets are numbered as rows come.

        Args:
            schema: That of the rows.
            image: int32; which of `images` each row has.
            images: Sets of indexes of columns.
        """
        first = first_rows(image, len(images))
        numbers = np.zeros(len(first), dtype=np.int32)
        for each in np.argsort(first)[: np.count_nonzero(first < len(image))].tolist():
            numbers[each] = self.number(schema, images[each])
        return numbers[image]

    def number(self, schema: Schema, image: tuple[int, ...]) -> int:
        """Return the number of a set of columns, given by their indexes; a new one if it is new."""
        fields = schema.fields
        ids = tuple([fields[column].id for column in image])
        return self.images.setdefault(ids, len(self.images))

    def finish(self, touched: TableInRange, *, quarantined: bool) -> TableChanges:
        """Return the entry of a table whose parts are all written.

        The log does not hold every row of one that is quarantined.

        Raises:
            StagingError: One could not be written.
        """
        state, schemas = touched.state, dict(self.schemas)
        if quarantined:
            state = replace(state, created=None)
        if state.schema is not None:
            schemas[state.schema.id] = state.schema
        return TableChanges(
            id=state.id,
            database=state.name[0],
            table=state.name[1],
            dropped=touched.dropped,
            created=state.created,
            schemas=tuple(schema for _, schema in sorted(schemas.items())),
            current=None if state.schema is None else state.schema.id,
            last_field_id=state.last_field_id,
            logged=state.logged,
            changed=touched.dropped or state != touched.before,
            images=tuple(self.images),
            # A segment of few rows may have been written after one that came later.
            parts=tuple(sorted(map(_written, self.parts), key=lambda part: part.first_row)),
            unrepresentable=dict(sorted(self.unrepresentable.items())),
            invalid_text=dict(sorted(self.invalid_text.items())),
        )


def count_replaced(pieces: Sequence[DecodedRows]) -> dict[str, int]:
    """Return how many values of some rows no lake type holds, by column."""
    counts: Counter[str] = Counter()
    for rows in pieces:
        counts.update(rows.unrepresentable)
        counts.update(rows.invalid_text)
    return dict(sorted(counts.items()))


def _written(part: tuple[partial[Part], Future[WrittenPart]]) -> Part:
    """Return the part with what is known of its file.

    Raises:
        StagingError: It could not be written.
    """
    make, written = part
    file = written.result()
    return make(bytes=file.bytes, sha256=file.sha256)
