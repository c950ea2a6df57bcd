"""Generated columns that MariaDB leaves out of row images though their values change.

    ≤ 11.8.8  FULL, NOBLOB          all of them are in all images
              MINIMAL               VIRTUAL ones are in no insert or after-image of an update
              FULL_NODUP            VIRTUAL ones are in no after-image of an update
    ≥ 11.8.9  all                   in inserts only

So what is left out of an after-image did not change, unless it is generated: then nothing in the
log has its value. MySQL logs a generated column wherever it changes.

Source: mariadb, sql/sql_class.cc, THD::binlog_prepare_row_images; sql/table.cc,
TABLE::mark_columns_per_binlog_row_image; what 10.11.18, 11.8.6 and 11.8.9 log.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.column_types import BLOBS, ColumnType
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.rows.images.headers import INSERT
from airflow_provider_binlog.rows.images.presence import bits_of

if TYPE_CHECKING:
    import numpy.typing as npt

    from airflow_provider_binlog.rows.images.headers import RowsHeaders
    from airflow_provider_binlog.rows.images.presence import ColumnSets
    from airflow_provider_binlog.rows.layout import RowLayout

_LARGE = BLOBS | {ColumnType.JSON, ColumnType.GEOMETRY}


def refuse_unlogged(layout: RowLayout, headers: RowsHeaders, sets: ColumnSets) -> None:
    """Refuse events of MariaDB without the values of generated columns.

    information_schema says which columns are generated, if it was read. Else the before-image of an
    update shows it: if it holds more than the key, only large columns may be left out of it.

    Raises:
        UnsupportedError: An insert or update lacks a generated column.
    """
    if not headers.version_1.any():
        return
    held = bits_of(sets.sets, layout.width)
    before, after = sets.number
    known = [c for c, each in enumerate(layout.columns) if each.logged.generated]
    lacks = ~np.all(held[:, known][after], axis=1)
    lacks &= headers.paired | (headers.changes[:, 0] == INSERT)
    if layout.key:
        lacks |= headers.paired & _shows_generated(layout, held, before, after)
    lacks &= headers.version_1
    if lacks.any():
        raise UnsupportedError(
            "an insert or update of a table with generated columns does not log their values: set "
            "binlog_row_image=FULL on the server and in the sessions that write; MariaDB from "
            "11.8.9 leaves them out of updates even so: leave the table out",
            event=int(lacks.argmax()),
        )


def _shows_generated(
    layout: RowLayout,
    held: npt.NDArray[np.bool_],
    before: npt.NDArray[np.int64],
    after: npt.NDArray[np.int64],
) -> npt.NDArray[np.bool_]:
    """Return where the first set holds more than the key, and neither holds some small column."""
    is_key, small = (np.zeros(layout.width, dtype=np.bool_) for _ in range(2))
    is_key[list(layout.key)] = True
    for index, each in enumerate(layout.columns):
        small[index] = each.logged.real_type not in _LARGE
    pairs, which = np.unique(before * len(held) + after, return_inverse=True)
    one, other = held[pairs // len(held)], held[pairs % len(held)]
    shows: npt.NDArray[np.bool_] = (one & ~is_key).any(axis=1) & (~one & ~other & small).any(axis=1)
    return shows[which]
