"""Stored documents under test: snapshots, what their runs note, and how far lakes have got."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.backlog.sub_ranges import BacklogPlan, plan_backlog
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from airflow_provider_binlog.schema_history.tables import NOTHING_KNOWN
from airflow_provider_binlog.snapshot.plan import ChunkRecord, SnapshotFiles
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
from airflow_provider_binlog.spark.merge.progress import (
    load_progress,
    note_start,
    read_running,
    save_progress,
)
from airflow_provider_binlog.spark.target.state import (
    PROPERTY,
    Mark,
    hold_property,
    read_fields,
    read_hold,
    read_key,
)
from tests.fuzz.mutate import mutate_json
from tests.fuzz.targets import Target, Wrong, check_text, with_digest
from tests.support import builder
from tests.support.builder import BinlogFile
from tests.support.requests import a_request
from tests.unit.capture.staging import end_of, file_source
from tests.unit.snapshot.test_plan import NAME, REQUEST, plan
from tests.unit.spark.memory_files import Files
from tests.unit.spark.merge.test_progress import PROGRESS, STALE
from tests.unit.test_snapshot_manifest import SNAPSHOT

_ID = SNAPSHOT.id


class _Store:
    """One object under every key."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = data

    def read(self, _: str) -> bytes:
        return self.data

    def write(self, _: str, data: bytes) -> None:
        self.data = data

    def folders(self, _: str) -> list[str]:
        return [_ID]

    def list(self, _: str) -> list[str]:
        return []


def _files(store: _Store) -> SnapshotFiles:
    of_any_kind: Any = store
    return SnapshotFiles(of_any_kind, "shop")


def _snapshot_manifest(data: bytes) -> None:
    found = SnapshotManifest.decode(with_digest(data))
    if SnapshotManifest.decode(found.encode()) != found or found.rows != sum(
        each.rows for each in found.parts
    ):
        raise Wrong("the manifest of a snapshot that does not survive being written")


def _snapshot_plan(data: bytes) -> None:
    store = _Store(with_digest(data))
    found = _files(store).find_plan(REQUEST)
    if found is None:
        return
    _files(store).write_plan(found)
    if _files(store).find_plan(REQUEST) != found:
        raise Wrong("a plan that does not survive being written")


def _snapshot_chunk(data: bytes) -> None:
    store = _Store(with_digest(data))
    found = _files(store).find_record(_ID, 0)
    if found is None:
        raise Wrong("a record that is not there")
    _files(store).write_record(_ID, found)
    if _files(store).find_record(_ID, 0) != found:
        raise Wrong("a record of a chunk that does not survive being written")


def _progress(data: bytes) -> None:
    files = Files()
    files.write(f"lake/{_ID}.json", with_digest(data))
    found = load_progress(files, "lake")
    if found is None:
        return
    found.pending(lambda _: True)
    found.is_merged(7, lambda _: True)
    for name in found.tables:
        found.first_needed(name, Mark(3))
        found.captures(name)
    again = Files()
    saved = save_progress(again, "lake", found, loaded=None, merged=())
    if load_progress(again, "lake") != saved:
        raise Wrong("a progress that does not survive being written")


def _running(data: bytes) -> None:
    files = Files()
    files.write("lake/running/1.json", data)
    for each in read_running(files, "lake"):
        json.dumps([each.started, sorted(each.tables)])


def _backlog_plan(data: bytes) -> None:
    found = BacklogPlan.decode(with_digest(data))
    if BacklogPlan.decode(found.encode()) != found:
        raise Wrong("the plan of a backlog that does not survive being written")
    found.request(found.start, found.stop)
    for number in range(len(found.sub_ranges)):
        found.stop_of(number)
        known = found.known_at(number, NOTHING_KNOWN)
        known.find(NAME)
        known.find_all(NAME[0])


def _lake_properties(data: bytes) -> None:
    text = data.decode(errors="replace")
    for read in (read_key, read_fields):
        try:
            read(text)
        except BinlogError as error:
            check_text(error)


def _lake_state(data: bytes) -> None:
    text = data.decode(errors="replace")
    hold = read_hold({PROPERTY: text}, Mark(2, 1))
    if hold is not None and read_hold(hold_property(hold, Mark(7)), Mark(7)) != hold:
        raise Wrong(f"a hold that does not survive being written: {hold}")


def _plans() -> list[bytes]:
    store = _Store()
    _files(store).write_plan(plan())
    return [store.data]


def _chunks() -> list[bytes]:
    store = _Store()
    _files(store).write_record(_ID, ChunkRecord(SNAPSHOT.chunks[0], True, SNAPSHOT.parts))
    return [store.data]


def _progresses() -> list[bytes]:
    files = Files()
    saved = save_progress(files, "lake", PROGRESS, loaded=None, merged=())
    return [data.replace(saved.id.encode(), _ID.encode()) for data in files.data.values()]


def _merges() -> list[bytes]:
    files = Files()
    note_start(files, "lake", [NAME])
    return list(files.data.values())


def _backlogs() -> list[bytes]:
    """Plans of a log over two files, with transactions and DDL in each."""
    first, second = BinlogFile(), BinlogFile()
    for file, number in ((first, 1), (second, 3)):
        file.add_transaction(number, [])
        file.add(EventType.GTID, builder.gtid(number + 1))
        file.add(EventType.QUERY, builder.query("CREATE TABLE shop.t (id INT)", database="shop"))
    files = {"binlog.000001": first, "binlog.000002": second}
    start = Position("binlog.000001", FIRST_OFFSET)
    request = a_request(start, end_of(files), flavor=Flavor.MYSQL)
    return [plan_backlog(LogRange(request), file_source(files), target_bytes=1).encode()]


_ADOPTED = replace(SNAPSHOT, chunks=(), parts=(), adopts=True)
_PROPERTIES = (b'{"1": ["c7", "3.2"], "2": [null, "0"]}',)

STORED_TARGETS = (
    Target(
        "snapshot_manifest",
        _snapshot_manifest,
        lambda: [SNAPSHOT.encode(), _ADOPTED.encode()],
        mutate_json,
    ),
    Target("backlog_plan", _backlog_plan, _backlogs, mutate_json),
    Target("lake_properties", _lake_properties, lambda: _PROPERTIES, mutate_json),
    Target("snapshot_plan", _snapshot_plan, _plans, mutate_json),
    Target("snapshot_chunk", _snapshot_chunk, _chunks, mutate_json),
    Target("progress", _progress, _progresses, mutate_json),
    Target("running_merge", _running, _merges, mutate_json),
    Target(
        "lake_state",
        _lake_state,
        lambda: [each.encode() for each in hold_property(STALE, Mark(2, 1)).values()],
        mutate_json,
    ),
)
