"""The servers' own reader of binlogs agrees: on where events begin, on rows and on values."""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.changes import CHANGE_TYPE, FILE, IMAGE, POSITION, ROW, ChangeType
from airflow_provider_binlog.staging.object_store import open_store
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.transport.files import FileSource
from tests.corpus.case import Recorded, recorded
from tests.services.servers import Package
from tests.support.mysqlbinlog import agrees, read_printed
from tests.unit.corpus.test_corpus import SOURCE, stage

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server

# Prepared rows are printed where they were prepared, and staged where they were committed. MySQL's
# program stops at a geometry: it does not know how to print one.
LEFT_OUT = ("xa", "geometry")
READ = [log for log in recorded() if log.case.refused is None and log.case.name not in LEFT_OUT]


def staged(log: Recorded, folder: Path) -> list[tuple[str, list[str], dict[str, Any]]]:
    """Return table, names of the columns, and change row of everything that is staged."""
    store = open_store(f"file://{folder}")
    found = []
    for manifest in stage(log, folder, ["*.*"]):
        for table in manifest.tables:
            name = f"`{table.database}`.`{table.table}`"
            for part in table.parts:
                columns = [each.name for each in table.schemas[part.schema].columns]
                rows = pq.read_table(io.BytesIO(store.read(part_key(SOURCE, part.path))))
                found += [
                    (name, columns, row | {"images": table.images}) for row in rows.to_pylist()
                ]
    return sorted(found, key=lambda each: each[2][ROW])


@pytest.mark.parametrize("log", READ, ids=str)
def test_mysqlbinlog_prints_the_same(log: Recorded, tmp_path: Path) -> None:
    program = [*Package.obtain(log.server).program("mysqlbinlog"), "--no-defaults"]
    compressed = log.case.name.startswith("compressed")
    changes = staged(log, tmp_path / "staging")
    source = FileSource(log.files)
    positions: dict[str, list[int]] = {file.name: [] for file in log.files}
    for block in source.blocks(source.first_position):
        positions[block.file] += block.position.tolist()
    compared = 0
    for file in log.files:
        printed = read_printed(program, file)
        own = [each for each in changes if each[2][FILE] == file.name]
        if not compressed:
            assert printed.positions == positions[file.name]
        assert len(own) == len(printed.images)
        for image, (table, columns, row) in zip(printed.images, own, strict=True):
            assert (image.table, image.change) == (table, ChangeType(row[CHANGE_TYPE]))
            # Rows are printed at the end of their statement.
            assert compressed or image.position >= row[POSITION]
            present = row["images"][row[IMAGE]]
            for number, text in image.values.items():
                name = columns[number - 1]
                assert name in present
                answer = agrees(text, image.types[number], row[name])
                assert answer is not False, f"{name}: {text} is staged as {row[name]!r}"
                compared += answer is True
    assert compared or not changes
