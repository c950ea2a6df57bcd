"""Change columns of a part: what stands in its bytes follows from its rows alone."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.blocks.transactions import NO_NAME
from airflow_provider_binlog.capture.part_table import _gtids
from airflow_provider_binlog.capture.pending import RowsColumns

if TYPE_CHECKING:
    from numpy.typing import NDArray


def columns(prefix: list[int], number: list[int]) -> RowsColumns:
    nothing: NDArray[np.int64] = np.zeros(len(prefix), dtype=np.int64)
    return RowsColumns(
        event=nothing,
        size=nothing,
        table=nothing,
        file=nothing,
        position=nothing,
        row=nothing,
        prefix=np.array(prefix),
        number=np.array(number),
        commit_ts=nothing,
    )


def test_a_transaction_without_a_name_shows_nothing_of_the_order_of_prefixes() -> None:
    rows = np.array([0, 0, 0, 1, 1, 1], dtype=np.int32)

    one = _gtids(columns([NO_NAME, 0], [0, 7]), ["a:", "b:"], rows)
    other = _gtids(columns([NO_NAME, 1], [0, 7]), ["b:", "a:"], rows)

    assert one.to_pylist() == [None, None, None, "a:7", "a:7", "a:7"]
    assert one.dictionary.equals(other.dictionary)  # type: ignore[attr-defined]
    assert one.equals(other)
