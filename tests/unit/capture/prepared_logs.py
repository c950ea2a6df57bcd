"""Logs with prepared transactions, and what is staged of them."""

from __future__ import annotations

import io
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.changes import ROW
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position
from tests.support import builder
from tests.support.compression import single_events, whole_transactions
from tests.support.logs import TABLES, Made, insert, maps, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.staging import Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore

A, B = TABLES[:2]
BEGIN = Position("binlog.000001", FIRST_OFFSET)
FLAVORS = pytest.mark.parametrize("flavor", list(Flavor))
HELD = pytest.mark.parametrize("held", [1, 1 << 24], ids=["read again", "from memory"])


@dataclass(frozen=True)
class Writer:
    """Writes what a server of a family logs, transaction by transaction."""

    flavor: Flavor

    def start(self, number: int, flags: int = 0x0C, name: str | None = None) -> Made:
        """Return the GTID."""
        stamp = 1_700_000_000 + number
        if self.flavor is Flavor.MYSQL:
            micros = stamp * 1_000_000
            return Made(
                EventType.GTID, builder.gtid(number, commit_timestamp_us=micros), timestamp=stamp
            )
        xa = (1, name.encode(), b"") if name is not None else None
        body = builder.mariadb_gtid(number, flags=flags, xa=xa)
        return Made(EventType.MARIADB_GTID, body, timestamp=stamp)

    def changes(self, *ids: int, table: Any = A) -> list[Made]:
        """Return TABLE_MAP and rows event."""
        version = 1 if self.flavor is Flavor.MARIADB else 2
        return [maps(table, self.flavor), insert(table, ids, version=version)]

    def plain(self, number: int, *events: Made) -> list[Made]:
        """Return a transaction."""
        begin = [query("BEGIN")] if self.flavor is Flavor.MYSQL else []
        return [self.start(number), *begin, *events, Made(EventType.XID, builder.xid(number))]

    def prepare(self, number: int, name: str, *events: Made, one_phase: bool = False) -> list[Made]:
        """Return an XA transaction up to its XA PREPARE or XA COMMIT ... ONE PHASE."""
        if one_phase and self.flavor is Flavor.MARIADB:
            return self.plain(number, *events)
        xid = a_xid(name)
        begin = [query(f"XA START {xid}")] if self.flavor is Flavor.MYSQL else []
        prepared = builder.xa_prepare(name.encode(), one_phase=one_phase)
        return [
            self.start(number, 0x4C, name),
            *begin,
            *events,
            query(f"XA END {xid}"),
            Made(EventType.XA_PREPARE, prepared),
        ]

    def decide(self, number: int, verb: str, name: str) -> list[Made]:
        """Return XA COMMIT or XA ROLLBACK."""
        return [self.start(number, 0x8D, name), query(f"XA {verb} {a_xid(name)}")]


def a_xid(name: str) -> str:
    return f"X'{name.encode().hex()}',X'',1"


def a_log(flavor: Flavor, *files: Sequence[Made]) -> Files:
    return write_files(files, flavor)


def run(files: Files, flavor: Flavor, held: int = 1 << 24, **arguments: Any) -> Manifest:
    source = file_source(files, block_bytes=arguments.pop("block_bytes", 1 << 22))
    limits = Limits(prepared_bytes_max=held)
    stop = arguments.pop("stop", end_of(files))
    return capture(source, stop, flavor=flavor, limits=limits, **arguments)


def rows_of(store: ObjectStore, *manifests: Manifest) -> list[dict[str, Any]]:
    """Return the change rows of all tables in the order of manifests and `_row`."""
    result = []
    for manifest in manifests:
        rows: list[dict[str, Any]] = []
        for table in manifest.tables:
            for part in table.parts:
                rows += pq.read_table(io.BytesIO(store.read(f"shop/{part.path}"))).to_pylist()
        result += sorted(rows, key=lambda row: int(row[ROW]))
    return result


def ids_of(files: Files, flavor: Flavor, **arguments: Any) -> list[int]:
    store = new_store()
    manifest = run(files, flavor, store=store, **arguments)
    return [row["id"] for row in rows_of(store, manifest)]


OPERATIONS = st.lists(
    st.tuples(
        st.sampled_from(
            ["plain", "prepare", "prepare", "one phase", "COMMIT", "COMMIT", "ROLLBACK", "file"]
        ),
        st.sampled_from("xyz"),
        st.lists(st.integers(1, 4), max_size=3),
    ),
    max_size=16,
)


def play(
    operations: Any, flavor: Flavor, data: st.DataObject
) -> tuple[Files, list[int], list[Position]]:
    """Return a log, the ids of its changes in order, and its boundaries between transactions."""
    compress = whole_transactions if flavor is Flavor.MYSQL else single_events
    chosen = data.draw(st.lists(st.booleans(), max_size=20))
    coins = itertools.chain(chosen, itertools.repeat(False))
    w = Writer(flavor)
    numbers, ids = itertools.count(1), itertools.count(1)
    waiting: dict[str, list[int]] = {}
    expected: list[int] = []
    groups: list[list[list[Made]]] = [[]]
    for kind, name, sizes in operations:
        mine = [[next(ids) for _ in range(size)] for size in sizes]
        events = [
            event
            for index, each in enumerate(mine)
            for event in w.changes(*each, table=(A, B)[index % 2])
        ]
        flat = list(itertools.chain.from_iterable(mine))
        if kind == "file":
            groups.append([])
        elif kind == "plain":
            groups[-1].append(w.plain(next(numbers), *events))
            expected += flat
        elif kind == "one phase" and name not in waiting:
            groups[-1].append(w.prepare(next(numbers), name, *events, one_phase=True))
            expected += flat
        elif kind == "prepare" and name not in waiting:
            groups[-1].append(w.prepare(next(numbers), name, *events))
            waiting[name] = flat
        elif kind in {"COMMIT", "ROLLBACK"} and name in waiting:
            groups[-1].append(w.decide(next(numbers), kind, name))
            decided = waiting.pop(name)
            expected += decided if kind == "COMMIT" else []
    groups = [[list(compress(each, lambda: next(coins))) for each in file] for file in groups]
    files = a_log(flavor, *(list(itertools.chain.from_iterable(each)) for each in groups))
    boundaries = []
    for (name, file), each in zip(files.items(), groups, strict=True):
        first = itertools.accumulate(map(len, each), initial=2)
        offsets = [*file.offsets, len(file.data)]
        boundaries += [Position(name, offsets[index]) for index in first]
    return files, expected, boundaries


def stage(
    files: Files,
    store: ObjectStore,
    flavor: Flavor,
    stop: Position,
    *,
    start: Position = BEGIN,
    sequence: int = 1,
) -> Manifest:
    (manifest,) = extract(
        a_request(start, stop, flavor=flavor, sequence=sequence),
        file_source(files),
        store,
    ).manifests
    return manifest
