"""One run: generated writes, captured range by range, replayed, and compared with SELECT."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture import Limits, TableFilter, extract
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import open_store
from airflow_provider_binlog.transport.catalog import read_catalog
from airflow_provider_binlog.transport.live import LiveSource
from airflow_provider_binlog.transport.questions import identify, log_end
from tests.fixtures.mysql import connect
from tests.oracle.replay import DifferenceError, Replay
from tests.oracle.workload import DATABASE, Workload, global_settings

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.catalog import Catalog
    from tests.oracle.settings import Settings
    from tests.services.servers import Server

_SOURCE = "oracle"
# Small, so that a range has many parts.
_LIMITS = Limits(part_bytes_max=64 << 10, pending_bytes_max=128 << 10)


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        changes: Change rows that were applied.
        rows: Rows that were compared with SELECT.
        statements: By kind.
        events: Events by type.
    """

    changes: int
    rows: int
    statements: dict[str, int]
    events: dict[str, int]


def run(
    server: Server,
    settings: Settings,
    seed: int,
    folder: Path,
    *,
    statements: int,
    ranges: int,
    at_end: Callable[[], None] = lambda: None,
) -> Outcome:
    """Write, capture and compare; `at_end` comes before the comparison.

    Raises:
        DifferenceError: The replayed tables are not what SELECT returns.
        BinlogError: Something was refused that should not be.
    """
    with global_settings(server, settings), closing(Workload(server, settings, seed)) as workload:
        store = open_store(f"file://{folder}")
        _write_and_capture(server, workload, seed, store, statements=statements, ranges=ranges)
        at_end()
        return _compare(workload, store)


def _write_and_capture(
    server: Server,
    workload: Workload,
    seed: int,
    store: ObjectStore,
    *,
    statements: int,
    ranges: int,
) -> None:
    def connect_() -> Any:
        return connect(server)

    with closing(connect(server)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
        identity, start = identify(connection), log_end(connection)
    workload.create()
    before_images = Random(seed).choice(list(BeforeImages))
    at, sequence = start, 1
    with closing(LiveSource(connect_, flavor=identity.flavor)) as source:
        for _ in range(ranges):
            workload.run(statements // ranges)
            with closing(connect(server)) as connection:
                stop = log_end(connection)
            extracted = extract(
                source,
                identity=identity,
                checkpoint_position=at,
                next_sequence=sequence,
                stop=stop,
                tables=TableFilter([f"{DATABASE}.*"]),
                store=store,
                source_name=_SOURCE,
                before_images=before_images,
                created_by="oracle",
                limits=_LIMITS,
                read_catalog=partial(_read_catalog, server),
            )
            at, sequence = extracted.stop, sequence + len(extracted.manifests)


def _read_catalog(server: Server, wanted: Callable[[str, str], bool]) -> Catalog:
    with closing(connect(server)) as connection:
        return read_catalog(connection, wanted)


def _compare(workload: Workload, store: ObjectStore) -> Outcome:
    replay, rows = Replay(workload.tables), 0
    events: dict[str, int] = {}
    for manifest in ManifestLog(store, _SOURCE).after(0):
        replay.apply(store, _SOURCE, manifest)
        for name, count in manifest.events.items():
            events[name] = events.get(name, 0) + count
    for name, table in workload.tables.items():
        expected = sorted(map(_frozen, workload.contents(table)))
        found = sorted(map(_frozen, replay.rows[name]))
        if found != expected:
            missing = [row for row in expected if row not in found][:2]
            extra = [row for row in found if row not in expected][:2]
            raise DifferenceError(f"{name}: SELECT has {missing}\n  staged is {extra}")
        rows += len(expected)
    return Outcome(replay.changes, rows, dict(workload.done), events)


def _frozen(row: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return a row in an order, with NULL apart from everything."""
    return sorted((name, type(value).__name__, str(value)) for name, value in row.items())
