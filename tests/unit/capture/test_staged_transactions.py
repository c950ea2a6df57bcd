"""StagedTransactions: what a GTID set holds is left out, wherever it is logged; the rest is not."""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.gtids import is_logged, position_with_gtids
from airflow_provider_binlog.errors import ForeignPositionError, PositionPurgedError
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor, Position, SourceIdentity
from tests.support import builder
from tests.support.builder import SERVER_UUID
from tests.support.logs import OTHER_SERVER, Made, query, write_files
from tests.support.requests import a_request
from tests.unit.capture.prepared_logs import Writer, rows_of
from tests.unit.capture.staging import Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore

BEGIN = Position("binlog.000001", FIRST_OFFSET)
FLAVORS = pytest.mark.parametrize("flavor", list(Flavor))

Name = tuple[int, int]
"""(server or domain, number)."""
SERVERS = (SERVER_UUID, OTHER_SERVER)


def group(flavor: Flavor, name: Name, row: int) -> list[Made]:
    """Return a transaction that inserts one row."""
    domain, number = name
    w = Writer(flavor)
    if flavor is Flavor.MARIADB:
        start = Made(EventType.MARIADB_GTID, builder.mariadb_gtid(number, domain=domain))
        return [start, *w.changes(row), Made(EventType.XID, builder.xid(1))]
    tag = "t" if domain == 2 else ""
    body = builder.gtid_tagged(number, tag) if tag else builder.gtid(number, server=SERVERS[domain])
    code = EventType.GTID_TAGGED if tag else EventType.GTID
    return [Made(code, body), query("BEGIN"), *w.changes(row), Made(EventType.XID, builder.xid(1))]


def text_of(flavor: Flavor, names: Sequence[Name]) -> str:
    """Return a GTID set, or the newest of each domain."""
    if flavor is Flavor.MARIADB:
        return str(MariadbGtidPosition.of([(d, 1, n) for d, n in sorted(names)]))
    result = GtidSet()
    for server, number in names:
        uuid = (*SERVERS, SERVER_UUID)[server]
        result.add_interval(uuid, "t" if server == 2 else "", number, number)
    return str(result)


@st.composite
def histories(draw: st.DrawFn, flavor: Flavor) -> tuple[list[Name], list[Name]]:
    """Return what one server executed, in its order, and the same in another one's.

    MySQL commits in any order; within one of MariaDB's domains the order is the same everywhere.
    """
    domains = draw(st.lists(st.integers(0, 2), max_size=8))
    numbers = {each: itertools.count(1) for each in range(3)}
    first = [(domain, next(numbers[domain])) for domain in domains]
    if flavor is Flavor.MYSQL:
        return first, draw(st.permutations(first))
    order = draw(st.permutations(domains))
    again = {each: itertools.count(1) for each in range(3)}
    return first, [(domain, next(again[domain])) for domain in order]


@settings(max_examples=150)
@given(st.sampled_from(list(Flavor)), st.data())
def test_a_promoted_replica_gives_the_rest_once(flavor: Flavor, data: st.DataObject) -> None:
    here, there = data.draw(histories(flavor))
    known = here[: data.draw(st.integers(0, len(here)))]
    bounds = sorted(data.draw(st.lists(st.integers(0, len(there)), max_size=3)))
    pieces = [there[a:b] for a, b in itertools.pairwise([0, *bounds, len(there)])]
    files = write_files(
        [
            [event for name in piece for event in group(flavor, name, there.index(name))]
            for piece in pieces
        ],
        flavor,
    )
    # Where the first transaction stands that is not known, as a server would find it.
    size = len(group(flavor, (0, 1), 1))
    positions = [
        Position(name, file.offsets[2 + size * index])
        for (name, file), piece in zip(files.items(), pieces, strict=True)
        for index in range(len(piece))
    ]
    new = [name not in known for name in there]
    first = new.index(True) if any(new) else None
    at = end_of(files) if first is None else positions[first]
    before = there if first is None else there[:first]
    start = position_with_gtids(
        flavor, at, staged=text_of(flavor, known), logged=text_of(flavor, before)
    )
    stops = data.draw(st.lists(st.sampled_from([*positions, end_of(files)]), max_size=3))
    store = new_store()

    staged: list[Manifest] = []
    for stop in sorted({*stops, end_of(files)}, key=lambda each: each.coordinates):
        if stop.coordinates > start.coordinates:
            block_bytes = data.draw(st.integers(1, 600))
            manifest = capture(
                file_source(files, block_bytes),
                stop,
                flavor=flavor,
                start=start,
                sequence=len(staged) + 1,
                store=store,
            )
            staged.append(manifest)
            start = manifest.stop

    expected = [index for index, name in enumerate(there) if name not in known]
    assert [row["id"] for row in rows_of(store, *staged)] == expected
    assert start.gtid == text_of(flavor, here)
    assert start.logged is None
    assert Position.from_json(start.to_json()) == start


def test_what_is_logged_twice_is_still_refused() -> None:
    names = [(0, 1), (0, 2), (0, 1)]
    events = [event for name in names for event in group(Flavor.MYSQL, name, 1)]
    files = write_files([events], Flavor.MYSQL)
    offsets = files["binlog.000001"].offsets
    start = Position("binlog.000001", offsets[7], f"{SERVER_UUID}:1-2", logged=f"{SERVER_UUID}:1")

    with pytest.raises(ForeignPositionError, match="the log was reset"):
        capture(file_source(files), end_of(files), start=start)


@pytest.mark.parametrize(
    ("flavor", "gtid", "logged", "expected"),
    [
        (Flavor.MYSQL, f"{SERVER_UUID}:3", None, True),
        (Flavor.MYSQL, f"{SERVER_UUID}:3", f"{SERVER_UUID}:1-2:4", False),
        (Flavor.MYSQL, f"{SERVER_UUID}:t:3", f"{SERVER_UUID}:1-4", False),
        (Flavor.MYSQL, f"{SERVER_UUID}:t:3", f"{SERVER_UUID}:t:1-4", True),
        (Flavor.MARIADB, "7-1-3", None, True),
        (Flavor.MARIADB, "7-1-3", "0-1-9,7-1-3", True),
        (Flavor.MARIADB, "7-1-3", "0-1-9,7-1-2", False),
        (Flavor.MARIADB, "7-1-3", "0-1-9", False),
    ],
)
def test_which_side_of_a_position_a_transaction_is(
    flavor: Flavor, gtid: str, logged: str | None, *, expected: bool
) -> None:
    assert is_logged(flavor, gtid, Position("binlog.000001", 4, "", logged)) is expected


# ------------------------------------------------------------------- extract


def follow(
    files: Files,
    store: ObjectStore,
    flavor: Flavor,
    at: Position,
    *,
    start: Position,
    **arguments: Any,
) -> tuple[Manifest, ...]:
    """Stage from another server's checkpoint on; its place is given."""
    defaults: dict[str, Any] = {
        "identity": SourceIdentity(flavor, "replica", "other"),
        "issued_by": SourceIdentity(flavor, "a-server", "binlog"),
        "sequence": 2,
        "find_gtids": lambda _: at,
    }
    request = a_request(start, end_of(files), **defaults | arguments)
    return extract(request, file_source(files), store).manifests


@FLAVORS
def test_prepared_transactions_are_found_on_the_other_server(flavor: Flavor) -> None:
    w = Writer(flavor)
    store = new_store()
    log = [
        *w.prepare(1, "x", *w.changes(1)),
        *w.prepare(2, "y", *w.changes(2)),
        *w.plain(3, *w.changes(3)),
    ]
    here = write_files([log], flavor)
    before = extract_here(here, store, flavor)
    # The same history, in other files, and more.
    there = {
        name.replace("binlog", "other"): file
        for name, file in write_files(
            [
                w.prepare(1, "x", *w.changes(1)),
                [*w.prepare(2, "y", *w.changes(2)), *w.plain(3, *w.changes(3))],
                [*w.decide(4, "COMMIT", "x"), *w.decide(5, "COMMIT", "y")],
            ],
            flavor,
        ).items()
    }
    at = Position("other.000003", there["other.000003"].offsets[2], before.stop.gtid)

    (manifest,) = follow(there, store, flavor, at, start=before.stop)

    assert [row["id"] for row in rows_of(store, before, manifest)] == [3, 1, 2]
    assert manifest.start == at
    assert manifest.prepared == ()
    # A second try finds the manifest, whoever asks.
    again = follow(there, store, flavor, at, start=before.stop)
    assert again == (manifest,)


@FLAVORS
def test_prepared_transactions_that_the_other_server_lacks_are_refused(flavor: Flavor) -> None:
    w = Writer(flavor)
    store = new_store()
    here = write_files([[*w.prepare(1, "x", *w.changes(1))]], flavor)
    before = extract_here(here, store, flavor)
    there = {"other.000007": write_files([w.decide(2, "COMMIT", "x")], flavor)["binlog.000001"]}
    at = Position("other.000007", there["other.000007"].offsets[2], before.stop.gtid)

    with pytest.raises(PositionPurgedError, match="transactions that are in doubt"):
        follow(there, store, flavor, at, start=before.stop)


@FLAVORS
def test_what_was_prepared_after_the_position_is_read_there(flavor: Flavor) -> None:
    w = Writer(flavor)
    store = new_store()
    first = write_files([[*w.plain(1, *w.changes(1)), *w.prepare(2, "x", *w.changes(2))]], flavor)
    before = extract_here(first, store, flavor)
    # On the other server the new one comes first; in MariaDB it is of another domain.
    new = [w.start(1), *w.changes(3), Made(EventType.XID, builder.xid(1))]
    if flavor is Flavor.MARIADB:
        new[0] = Made(EventType.MARIADB_GTID, builder.mariadb_gtid(1, domain=5))
    else:
        body = builder.gtid(1, server=OTHER_SERVER)
        new = [Made(EventType.GTID, body), query("BEGIN"), *new[1:]]
    events = [
        *w.plain(1, *w.changes(1)),
        *new,
        *w.prepare(2, "x", *w.changes(2)),
        *w.decide(3, "COMMIT", "x"),
    ]
    there = {"other.000001": write_files([events], flavor)["binlog.000001"]}
    offset = there["other.000001"].offsets[2 + len(w.plain(1, *w.changes(1)))]
    one = f"{SERVER_UUID}:1" if flavor is Flavor.MYSQL else "0-1-1"
    at = Position("other.000001", offset, before.stop.gtid, logged=one)

    (manifest,) = follow(there, store, flavor, at, start=before.stop)

    assert [row["id"] for row in rows_of(store, before, manifest)] == [1, 3, 2]
    assert manifest.prepared == ()
    assert manifest.stop.logged is None


def extract_here(files: Files, store: ObjectStore, flavor: Flavor) -> Manifest:
    """Stage a log as its own server's first range."""
    here = SourceIdentity(flavor, "a-server", "binlog")
    (manifest,) = follow(
        files, store, flavor, BEGIN, start=BEGIN, identity=here, issued_by=None, sequence=1
    )
    return manifest


def test_without_gtids_a_failover_is_refused() -> None:
    w = Writer(Flavor.MYSQL)
    files = write_files([w.plain(1, *w.changes(1))], Flavor.MYSQL)

    for gtid in (None, ""):
        with pytest.raises(ForeignPositionError, match="cannot be found by GTID"):
            follow(
                files, new_store(), Flavor.MYSQL, BEGIN,
                start=Position("binlog.000009", 4, gtid),
            )  # fmt: skip
