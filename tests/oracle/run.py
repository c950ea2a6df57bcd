"""One run: generated writes, captured range by range, replayed, and compared with SELECT."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture import Limits, TableFilter, extract
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ServerSetupError
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
        refused: Tables that were left out when they were refused: their columns, as they were once,
            are not for certain. Only where the log does not name them.
        changes: Change rows that were applied.
        rows: Rows that were compared with SELECT.
        statements: By kind.
        events: Events by type.
    """

    refused: set[str]
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
        refused = _write_and_capture(
            server, settings, workload, seed, store, statements=statements, ranges=ranges
        )
        at_end()
        return _compare(workload, store, refused)


def _write_and_capture(
    server: Server,
    settings: Settings,
    workload: Workload,
    seed: int,
    store: ObjectStore,
    *,
    statements: int,
    ranges: int,
) -> set[str]:
    """Return the tables that were refused."""

    def connect_() -> Any:
        return connect(server)

    with closing(connect(server)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
        identity, start = identify(connection), log_end(connection)
    workload.create()
    before_images = Random(seed).choice(list(BeforeImages))
    at, sequence = start, 1
    refused: set[str] = set()
    with closing(LiveSource(connect_, flavor=identity.flavor)) as source:
        for _ in range(ranges):
            workload.run(statements // ranges)
            with closing(connect(server)) as connection:
                stop = log_end(connection)
            while at.place < stop.place:
                try:
                    extracted = extract(
                        source,
                        identity=identity,
                        checkpoint_position=at,
                        next_sequence=sequence,
                        stop=stop,
                        tables=TableFilter([f"{DATABASE}.*"], [f"{DATABASE}.{n}" for n in refused]),
                        store=store,
                        source_name=_SOURCE,
                        before_images=before_images,
                        created_by="oracle",
                        limits=_LIMITS,
                        read_catalog=partial(_read_catalog, server),
                        wants_defaults=settings.image != "FULL",
                    )
                except ServerSetupError as error:
                    # What was a column before a statement changed it, the log need not tell.
                    if settings.metadata == "FULL":
                        raise
                    refused.add(str(error.context["table"]).removeprefix(f"{DATABASE}."))
                else:
                    at, sequence = extracted.stop, sequence + len(extracted.manifests)
    return refused


def _read_catalog(server: Server, wanted: Callable[[str, str], bool]) -> Catalog:
    with closing(connect(server)) as connection:
        return read_catalog(connection, wanted)


def _compare(workload: Workload, store: ObjectStore, refused: set[str]) -> Outcome:
    tables = {name: table for name, table in workload.tables.items() if name not in refused}
    replay, rows = Replay(tables), 0
    events: dict[str, int] = {}
    for manifest in ManifestLog(store, _SOURCE).after(0):
        replay.apply(store, _SOURCE, manifest)
        for name, count in manifest.events.items():
            events[name] = events.get(name, 0) + count
    for name, table in tables.items():
        expected = sorted(map(_frozen, workload.contents(table)))
        found = sorted(map(_frozen, replay.rows[name]))
        if found != expected:
            missing = [row for row in expected if row not in found][:2]
            extra = [row for row in found if row not in expected][:2]
            raise DifferenceError(f"{name}: SELECT has {missing}\n  staged is {extra}")
        rows += len(expected)
    return Outcome(refused, replay.changes, rows, dict(workload.done), events)


def _frozen(row: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return a row in an order, with NULL apart from everything."""
    return sorted((name, type(value).__name__, str(value)) for name, value in row.items())
