"""Chunks: the parts of their rows."""

from __future__ import annotations

import io
import subprocess
import sys
from typing import Any
from unittest.mock import Mock

import numpy as np
import pyarrow.parquet as pq

from airflow_provider_binlog.blocks.arrays import of_numbers
from airflow_provider_binlog.changes import CHANGE_COLUMNS, CHANGE_TYPE, FILE, ROW
from airflow_provider_binlog.rows.layout import Converted
from airflow_provider_binlog.snapshot.chunk import ChunkParts, ChunkReader
from airflow_provider_binlog.snapshot.plan import SnapshotFiles
from airflow_provider_binlog.staging.part_writer import PartQueue
from tests.support.stores import open_store
from tests.unit.snapshot.test_plan import LOW, plan


def write_part() -> bytes:
    """Return the part of the rows 7 and 8 of a table."""
    files = SnapshotFiles(open_store("memory://chunks"), "shop")
    with PartQueue(files.store) as queue:
        parts = ChunkParts(plan(), 1, LOW, ChunkReader(Mock(), files), queue)
        parts.add(Converted([of_numbers(np.array([7, 8], dtype=np.int32))], {}, {}))
        parts.flush()
        (part,) = parts.written()
    return files.store.read(files.key(part.path))


def test_a_part_has_the_rows_as_inserts_at_the_start_of_its_chunk() -> None:
    rows: list[dict[str, Any]] = pq.read_table(io.BytesIO(write_part())).to_pylist()

    assert [list(row) for row in rows] == [["id", *CHANGE_COLUMNS]] * 2
    assert [row["id"] for row in rows] == [7, 8]
    assert [row[CHANGE_TYPE] for row in rows] == ["insert"] * 2
    assert [row[FILE] for row in rows] == [LOW.file] * 2
    assert [row[ROW] for row in rows] == [1 << 40, (1 << 40) + 1]


def test_a_part_is_written_without_pandas() -> None:
    here = "from tests.unit.snapshot.test_chunk import write_part"
    check = "import sys; sys.exit('pandas' in sys.modules)"

    subprocess.run([sys.executable, "-c", f"{here}; write_part(); {check}"], check=True)
