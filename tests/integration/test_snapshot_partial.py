"""Snapshots in chunks of tables whose row images lack columns, through merges into a lake."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.support.snapshots import CHUNK_BYTES, take, written

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from tests.support.pipeline import Pipeline

pytestmark = [pytest.mark.server, pytest.mark.spark]

_ROWS = 300
_KEYS = f"(part, id) = ({{0}} % 2, {{0}} % {2 * _ROWS})"
_CHANGES = (
    "UPDATE orders SET n = n + 1 WHERE " + _KEYS,
    "UPDATE orders SET note = CONCAT('note ', {1}) WHERE " + _KEYS,
    "UPDATE orders SET long_note = {1}, n = NULL WHERE " + _KEYS,
    "DELETE FROM orders WHERE " + _KEYS,
    f"INSERT IGNORE INTO orders (part, id, note) VALUES ({{0}} % 2, {{0}} % {2 * _ROWS}, 'new')",
    (
        f"INSERT INTO orders VALUES ({{0}} % 2, {{0}} % {2 * _ROWS}, 1, 'again', {{1}})"
        " ON DUPLICATE KEY UPDATE n = n + 10"
    ),
)
# One column of the key alone, or the other; the bounds of chunks are crossed.
_MOVES = (
    f"UPDATE IGNORE orders SET id = {{1}} % {2 * _ROWS} WHERE " + _KEYS,
    "UPDATE IGNORE orders SET part = 1 - part, n = 0 WHERE " + _KEYS,
)


def take_while(pipeline: Pipeline, *changes: str) -> SnapshotManifest:
    """Take a snapshot while the table is written, in images that lack columns."""

    def make(random: Random) -> list[str]:
        return [random.choice(changes).format(random.randrange(999), random.randrange(999))]

    # What happened before the snapshot is not in the range that it is loaded with.
    pipeline.capture()
    workplace = pipeline.workplace
    minimal = "SET SESSION binlog_row_image = MINIMAL"
    with written(pipeline.database, make, minimal):
        return take(
            pipeline.database,
            "orders",
            store=workplace.store,
            source_name=workplace.source,
            chunk_bytes=CHUNK_BYTES // 2,
            # Later tries are snapshots of their own.
            created_by=f"run {pipeline.next_sequence}",
        )


@pytest.mark.parametrize("kind", ["mysql97", "mariadb118"])
def test_a_table_with_minimal_images_is_read_in_chunks(
    create_pipeline: Callable[..., Pipeline], kind: str
) -> None:
    pipeline = create_pipeline(kind, "iceberg")
    values = ", ".join(f"({n % 2}, {n}, {n}, 'row {n}', 'long {n}')" for n in range(_ROWS))
    pipeline.database.execute(
        "CREATE TABLE orders (part INT, id INT, n INT, note VARCHAR(40), long_note TEXT,"
        " PRIMARY KEY (part, id))",
        f"INSERT INTO orders VALUES {values}",
        "ANALYZE TABLE orders",
    )

    def assert_loaded(snapshot: SnapshotManifest) -> None:
        assert len(snapshot.chunks) > 3
        assert not snapshot.is_exact
        (table,) = pipeline.manifests[-1].tables
        assert any(len(image) < len(snapshot.schema.fields) for image in table.images)
        workplace = pipeline.workplace
        target = workplace.lake.target(pipeline.database.name, "orders")
        state = workplace.lake.find_state(workplace.spark, target)
        assert state is not None
        assert state.loaded == snapshot.id

    snapshot = take_while(pipeline, *_CHANGES)
    pipeline.run()
    assert_loaded(snapshot)

    take_while(pipeline, *_CHANGES, *_MOVES)
    pipeline.capture()
    refused = pipeline.merge()
    assert "rows got another key in images that lack" in refused["orders"]

    snapshot = take_while(pipeline, *_CHANGES)
    pipeline.run()
    assert_loaded(snapshot)
