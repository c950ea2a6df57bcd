"""One run: generated writes, captured range by range, replayed, and compared with SELECT."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from functools import partial
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ServerSetupError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import connect
from tests.oracle.replay import EffectReplay
from tests.oracle.workload import DATABASE, Workload, global_settings
from tests.support.replay import DifferenceError
from tests.support.requests import a_request
from tests.support.staged import manifests_after
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from pathlib import Path

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.server.information_schema import ServerTables
    from tests.oracle.settings import Settings
    from tests.services.servers import Server

_SOURCE = "oracle"
# Small, so that a range has many parts.
_LIMITS = Limits(part_bytes_max=64 << 10, pending_bytes_max=128 << 10)


@dataclass(frozen=True)
class Outcome:
    """What a run came to.

    Attributes:
        tables: How many were written to.
        refused: By table that was left out, why it was refused: its columns, as they were once, are
            not for certain. Only where the log does not name them.
        changes: Change rows that were applied.
        rows: Rows that were compared with SELECT.
        statements: By kind.
        events: Events by type.
    """

    tables: int
    refused: dict[str, str]
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
    try:
        with global_settings(server, settings), closing(Workload(server, settings, seed)) as writes:
            store = open_store(f"file://{folder}")
            refused = _write_and_capture(
                server, settings, writes, seed, store, statements=statements, ranges=ranges
            )
            at_end()
            return _compare(writes, store, refused)
    except Exception as error:
        error.add_note(f"To replay it: {_command(settings, seed, statements, ranges)}")
        raise


def _command(settings: Settings, seed: int, statements: int, ranges: int) -> str:
    return (
        f"python -m tests.oracle --only {settings} --seed {seed} --statements {statements}"
        f" --ranges {ranges}"
    )


def _write_and_capture(
    server: Server,
    settings: Settings,
    workload: Workload,
    seed: int,
    store: ObjectStore,
    *,
    statements: int,
    ranges: int,
) -> dict[str, str]:
    """Return the tables that were refused, by what they were called first, and why."""

    def connect_() -> Any:
        return connect(server)

    with closing(connect(server)) as connection:
        with connection.cursor() as cursor:
            cursor.execute("FLUSH BINARY LOGS")
        identity, start = identify(connection), log_end(connection)
    workload.create()
    before_images = Random(seed).choice(list(BeforeImages))
    at, sequence = start, 1
    refused: dict[str, str] = {}
    with closing(ServerBlockStream(connect_, flavor=identity.flavor)) as source:
        for _ in range(ranges):
            workload.run(statements // ranges)
            refused |= _relations(workload, refused)
            with closing(connect(server)) as connection:
                stop = log_end(connection)
            while at.coordinates < stop.coordinates:
                try:
                    extracted = extract(
                        a_request(
                            at,
                            stop,
                            identity=identity,
                            sequence=sequence,
                            tables=_captured(workload, refused),
                            source_name=_SOURCE,
                            before_images=before_images,
                            created_by="oracle",
                            limits=_LIMITS,
                            read_server_tables=partial(_read_catalog, server),
                            wants_defaults=settings.image != "FULL",
                        ),
                        source,
                        store,
                    )
                except ServerSetupError as error:
                    # The log need not say what a column was before a statement changed it.
                    if settings.logs_schemas:
                        raise
                    name = str(error.context["table"]).removeprefix(f"{DATABASE}.")
                    found = {each.first_name for each in workload.tables if name in each.names}
                    if not found - set(refused):
                        raise
                    refused |= dict.fromkeys(found, str(error))
                    refused |= _relations(workload, refused)
                else:
                    at, sequence = extracted.stop, sequence + len(extracted.manifests)
    return refused


def _captured(workload: Workload, refused: Collection[str]) -> TableFilter:
    names = sorted(_names(workload, refused))
    return TableFilter([f"{DATABASE}.*"], [f"{DATABASE}.{name}" for name in names])


def _relations(workload: Workload, refused: Collection[str]) -> dict[str, str]:
    """Return the tables that changed names with refused ones: what is said of these, is of them."""
    names = _names(workload, refused)
    return {
        each.first_name: "it changed names with a refused one"
        for each in workload.tables
        if each.first_name not in refused and each.names & names
    }


def _names(workload: Workload, refused: Collection[str]) -> set[str]:
    """Return every name that refused tables have had."""
    return {name for each in workload.tables if each.first_name in refused for name in each.names}


def _read_catalog(server: Server, names: Collection[TableName]) -> ServerTables:
    with closing(connect(server)) as connection:
        return read_server_tables(connection, names)


def _compare(workload: Workload, store: ObjectStore, refused: dict[str, str]) -> Outcome:
    replay, rows = EffectReplay(workload.past, _names(workload, refused)), 0
    events: dict[str, int] = {}
    for manifest in manifests_after(ManifestLog(store, _SOURCE), 0):
        replay.apply(store, _SOURCE, manifest)
        for name, count in manifest.events.items():
            events[name] = events.get(name, 0) + count
    replay.end()
    for table in workload.tables:
        if table.first_name in refused:
            continue
        expected = sorted(map(_frozen, workload.contents(table)))
        found = sorted(map(_frozen, replay.tables()[table.name]))
        if found != expected:
            missing = [row for row in expected if row not in found][:2]
            extra = [row for row in found if row not in expected][:2]
            raise DifferenceError(
                f"{table.first_name}, now {table.name}: SELECT has {missing}\n  staged is {extra}"
            )
        rows += len(expected)
    if not rows:
        raise DifferenceError(f"nothing was compared; refused: {refused}")
    return Outcome(len(workload.tables), refused, replay.changes, rows, dict(workload.done), events)


def _frozen(row: dict[str, Any]) -> list[tuple[str, str, Any]]:
    """Return a row in an order, with NULL apart from everything."""
    return sorted((name, type(value).__name__, str(value)) for name, value in row.items())
