"""Rows events decoded in one call: the pieces of `decode_pieces`, joined."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.rows.decode import DecodedRows, decode_pieces
from airflow_provider_binlog.rows.layout import nulls

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.rows.decode import RowsEvents
    from airflow_provider_binlog.rows.layout import RowLayout


def decode(
    layout: RowLayout, events: RowsEvents, *, before_images: BeforeImages = BeforeImages.ALL
) -> DecodedRows:
    """Return the rows of these events; under KEY_CHANGES without the before-images of equal key."""
    pieces = decode_pieces(layout, events, before_images=before_images)
    return _join(layout, [rows for _, _, rows in pieces])


def _join(layout: RowLayout, pieces: list[DecodedRows]) -> DecodedRows:
    if len(pieces) == 1:
        return pieces[0]
    if not pieces:
        return DecodedRows(
            columns=[nulls(0, column.arrow_type) for column in layout.columns],
            event=np.zeros(0, dtype=np.int32),
            offset=np.zeros(0, dtype=np.int64),
            change=np.zeros(0, dtype=np.uint8),
            image=np.zeros(0, dtype=np.int32),
            images=[tuple(range(len(layout.columns)))],
            unrepresentable={},
        )
    columns = [
        pa.concat_arrays([piece.columns[index] for piece in pieces])
        for index in range(len(layout.columns))
    ]
    images: dict[tuple[int, ...], int] = {}
    image = [_number_images(piece, images) for piece in pieces]
    unrepresentable: Counter[str] = Counter()
    invalid_text: Counter[str] = Counter()
    for piece in pieces:
        unrepresentable.update(piece.unrepresentable)
        invalid_text.update(piece.invalid_text)
    return DecodedRows(
        columns=columns,
        event=np.concatenate([piece.event for piece in pieces]),
        offset=np.concatenate([piece.offset for piece in pieces]),
        change=np.concatenate([piece.change for piece in pieces]),
        image=np.concatenate(image),
        images=list(images),
        unrepresentable=dict(unrepresentable),
        invalid_text=dict(invalid_text),
    )


def _number_images(rows: DecodedRows, numbers: dict[tuple[int, ...], int]) -> npt.NDArray[np.int32]:
    """Return each row's number of its set of columns in `numbers`, to which new sets are added."""
    renumbered = [numbers.setdefault(each, len(numbers)) for each in rows.images]
    if renumbered == list(range(len(renumbered))):
        return rows.image
    return np.array(renumbered, dtype=np.int32)[rows.image]
