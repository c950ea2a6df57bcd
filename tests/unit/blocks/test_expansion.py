"""Expander: what was compressed comes out as it would have been logged without."""

from __future__ import annotations

import io
from itertools import chain, pairwise
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks import compressed as compressed_events
from airflow_provider_binlog.blocks.expansion import Expander
from airflow_provider_binlog.changes import FILE, POSITION, ROW
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from tests.support import builder, logs
from tests.support.compression import (
    compressed,
    inner_events,
    payload,
    single_event,
    single_events,
    whole_transactions,
    zstd,
    zstd_stream,
)
from tests.support.logs import TABLES, Made, cuts, insert, maps, query, split_blocks, write_files
from tests.unit.capture.staging import CutSource, Files, capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.blocks.block import EventBlock
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream

COMPRESS = {Flavor.MYSQL: whole_transactions, Flavor.MARIADB: single_events}
START = Made(EventType.GTID, builder.gtid(1))
XID = Made(EventType.XID, builder.xid(1))
A = TABLES[0]
INNER = [query("BEGIN"), maps(A, Flavor.MYSQL), insert(A, [1, 2, 3]), XID]
PACKED = inner_events(INNER)
MARIADB_START = Made(EventType.MARIADB_GTID, builder.mariadb_gtid(1))
MARIADB_INSERT = insert(A, [1, 2, 3], version=1)


def expand(
    files: Files, cut: dict[str, list[int]] | None = None, **limits: Any
) -> Iterator[EventBlock]:
    expander = Expander(**limits)
    for name, file in files.items():
        for block in split_blocks(name, file, (cut or {}).get(name, ())):
            yield from expander.expand(block)


def events_of(blocks: Iterator[EventBlock]) -> list[tuple[Any, ...]]:
    """Return every event without its offset; no FORMAT_DESCRIPTION, which has the checksums."""
    return [
        (
            block.file,
            *(int(each[index]) for each in (block.timestamp, block.server_id, block.flags)),
            bytes(block.event(index))[4:5],
            bytes(block.body(index)),
        )
        for block in blocks
        for index in range(len(block))
        if block.type[index] != EventType.FORMAT_DESCRIPTION
    ]


def offsets_of(blocks: Iterator[EventBlock]) -> list[tuple[Any, ...]]:
    return [
        (
            block.file,
            *(int(each[index]) for each in (block.offset, block.expanded_offset, block.type)),
        )
        for block in blocks
        for index in range(len(block))
    ]


def a_log(*events: Made, flavor: Flavor = Flavor.MYSQL) -> Files:
    return write_files([events], flavor)


def one_transaction(event: Made) -> Files:
    return a_log(START, event, *(START, *INNER))


@st.composite
def log_pairs(draw: st.DrawFn, flavor: Flavor) -> tuple[Files, Files]:
    """Return a log as it is without and with compression."""
    files = draw(logs.group_lists(flavor))
    choose = draw(st.sampled_from([lambda: True, lambda: draw(st.booleans())]))
    packed = [list(COMPRESS[flavor](events, choose)) for events in files]
    return write_files(files, flavor), write_files(packed, flavor)


# ------------------------------------------------------------------- what comes out


@settings(max_examples=100)
@given(st.sampled_from(list(Flavor)), st.sampled_from([1, 300, 4 << 20]), st.data())
def test_any_blocks_expand_to_the_events_that_were_compressed(
    flavor: Flavor, block_bytes: int, data: st.DataObject
) -> None:
    plain, packed = data.draw(log_pairs(flavor))
    cut = {name: data.draw(cuts(file)) for name, file in packed.items()}

    found = list(expand(packed, cut, block_bytes=block_bytes))

    assert events_of(iter(found)) == events_of(expand(plain))
    assert offsets_of(iter(found)) == offsets_of(expand(packed))
    for name, file in packed.items():
        own = [block for block in found if block.file == name]
        offsets = [offset for block in own for offset in block.expanded_offset.tolist()]
        assert all(a < b for a, b in pairwise(offsets))
        ends = {*file.offsets, len(file.data)}
        assert {block.next_offset for block in own} <= ends
        assert own[-1].next_offset == len(file.data)


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(list(Flavor)), st.data())
def test_a_compressed_log_is_captured_as_one_that_is_not(
    flavor: Flavor, data: st.DataObject
) -> None:
    plain, packed = data.draw(log_pairs(flavor))
    stores = [new_store() for _ in range(4)]
    try:
        expected = capture(CutSource(plain, {}), end_of(plain), flavor=flavor, store=stores[0])
    except BinlogError as error:
        with pytest.raises(type(error)):
            capture(CutSource(packed, {}), end_of(packed), flavor=flavor)
        return
    sources: list[BlockStream] = [
        CutSource(packed, {}),
        CutSource(packed, {name: data.draw(cuts(file)) for name, file in packed.items()}),
        file_source(packed, block_bytes=data.draw(st.integers(1, 400))),
    ]

    found = [
        capture(source, end_of(packed), flavor=flavor, store=store)
        for source, store in zip(sources, stores[1:], strict=True)
    ]

    assert [one.tables for one in found] == [found[0].tables] * 3  # with the parts' checksums
    assert found[0].stop.gtid == expected.stop.gtid
    assert rows(stores[1], found[0]) == rows(stores[0], expected)
    said = [(each.file, each.type, each.text) for each in found[0].statements]
    assert said == [(each.file, each.type, each.text) for each in expected.statements]


def rows(store: ObjectStore, manifest: Manifest) -> list[Any]:
    """Return the change rows by table in their order, without their offsets."""
    found: list[Any] = []
    for table in manifest.tables:
        parts = [
            (pq.read_table(io.BytesIO(store.read(f"shop/{part.path}"))), part.schema)
            for part in table.parts
        ]
        ordered = sorted(
            (
                row[ROW],
                table.schema(schema),
                {key: row[key] for key in row if key not in POSITION_COLUMNS},
            )
            for part, schema in parts
            for row in part.to_pylist()
        )
        found.append((table.database, table.table, [row[1:] for row in ordered]))
    return found


POSITION_COLUMNS = {FILE, POSITION, ROW}


def test_events_are_counted_as_logged_and_inside_transactions() -> None:
    expander = Expander()
    for block in split_blocks("a", one_transaction(payload(zstd(PACKED), len(PACKED)))[NAME]):
        list(expander.expand(block))

    names = {EventType(code).name: count for code, count in expander.events.items()}
    assert names["TRANSACTION_PAYLOAD"] == 1
    assert (names["XID"], names["WRITE_ROWS"], names["GTID"]) == (2, 2, 2)

    expander = Expander()
    files = a_log(MARIADB_START, single_event(MARIADB_INSERT), XID, flavor=Flavor.MARIADB)
    for block in split_blocks("a", files[NAME]):
        list(expander.expand(block))

    assert expander.events[EventType.WRITE_ROWS_COMPRESSED_V1] == 1
    assert EventType.WRITE_ROWS_V1 not in expander.events


NAME = "binlog.000001"


@pytest.mark.parametrize(
    "event",
    [
        payload(zstd_stream(PACKED), len(PACKED)),
        payload(zstd_stream(PACKED), None),
        payload(zstd(PACKED), None),
        payload(zstd(PACKED[:50]) + zstd_stream(PACKED[50:]), len(PACKED)),
        payload(zstd(PACKED[:50]) + zstd(PACKED[50:]), None),
        payload(PACKED, len(PACKED), compression=255),
        payload(PACKED, None, compression=255),
        payload(PACKED, None, compression=None),
        payload(zstd(PACKED), len(PACKED), more=b"\x09\x03abc\xfc\x00\x01\x00"),
    ],
    ids=[
        "no content size",
        "no size at all",
        "no declared size",
        "two frames",
        "two frames, no size",
        "not compressed",
        "not compressed, no size",
        "not said",
        "unknown fields",
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 100, 4 << 20])
def test_every_form_of_a_payload_is_read(event: Made, block_bytes: int) -> None:
    found = events_of(expand(one_transaction(event), block_bytes=block_bytes))

    assert found == events_of(expand(a_log(START, *INNER, START, *INNER)))


def test_many_small_transactions_make_one_block() -> None:
    event = payload(zstd(PACKED), len(PACKED))
    files = a_log(*[START, event] * 500)

    (block,) = expand(files)

    assert (block.type == EventType.WRITE_ROWS).sum() == 500


def test_a_large_transaction_makes_many_blocks_which_have_its_position() -> None:
    inner = [query("BEGIN"), maps(A, Flavor.MYSQL), *[insert(A, [1])] * 1000, XID]
    data = inner_events(inner)
    files = a_log(START, payload(zstd(data), len(data)), START, payload(zstd(PACKED), len(PACKED)))
    position, end = files[NAME].offsets[3:5]

    blocks = [
        block for block in expand(files, block_bytes=4096) if int(block.offset[0]) == position
    ]

    assert len(blocks) >= 10
    assert {*chain.from_iterable(block.offset.tolist() for block in blocks)} == {position}
    assert [block.next_offset for block in blocks] == [position] * (len(blocks) - 1) + [end]
    assert max(len(block.data) for block in blocks) < 5000


# ------------------------------------------------------------------- what is refused

HUGE = payload(zstd(bytes(100_000)), 100_000)
ZEROS = b"\0" * 19


@pytest.mark.parametrize(
    ("event", "reason"),
    [
        (payload(zstd(PACKED), len(PACKED) + 1), "not have the size that it declares"),
        (payload(zstd(PACKED), len(PACKED) - 1), "not have the size that it declares"),
        (payload(zstd(PACKED)[:-5], len(PACKED)), "is damaged"),
        (payload(b"nothing of the kind", len(PACKED)), "is damaged"),
        (payload(zstd(PACKED) + b"more", len(PACKED)), "is damaged"),
        (payload(zstd(PACKED[:-1]), len(PACKED) - 1), "ends inside an event"),
        (payload(zstd(PACKED + ZEROS), len(PACKED) + 19), "ends inside an event"),
        (payload(zstd(PACKED + b"x"), len(PACKED) + 1), "ends inside an event"),
        (payload(zstd(b""), 0), "without events"),
        (payload(zstd(PACKED), len(PACKED), packed_size=1), "not have the size that it declares"),
        (HUGE, "ends inside an event"),
        *[
            (payload(zstd(data), len(data)), "cannot be part of a compressed transaction")
            for data in (
                inner_events([*INNER, payload(zstd(PACKED), len(PACKED))]),
                inner_events([START, *INNER]),
                inner_events([Made(EventType.ROTATE, builder.rotate("a.1")), *INNER]),
                inner_events([Made(EventType.FORMAT_DESCRIPTION, bytes(90)), *INNER]),
            )
        ],
    ],
)
@pytest.mark.parametrize("block_bytes", [1, 4 << 20])
def test_a_payload_with_false_sizes_is_refused_with_its_offset(
    event: Made, reason: str, block_bytes: int
) -> None:
    good = payload(zstd(PACKED), len(PACKED))
    files = a_log(START, good, START, event, START, good)

    with pytest.raises(FormatError, match=reason) as caught:
        list(expand(files, block_bytes=block_bytes))

    assert caught.value.context["file"] == NAME
    assert caught.value.context["offset"] == files[NAME].offsets[5]
    assert caught.value.context["event"] == "TRANSACTION_PAYLOAD"


def test_two_payloads_that_make_up_for_one_another_are_refused() -> None:
    short, long = payload(zstd(PACKED), len(PACKED) - 1), payload(zstd(PACKED), len(PACKED) + 1)

    with pytest.raises(FormatError, match="not have the size that it declares"):
        list(expand(a_log(START, short, START, long)))


@pytest.mark.parametrize("declared", [True, False])
def test_a_decompression_bomb_is_refused_early(
    declared: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    event = builder.event(EventType.ROWS_QUERY, bytes(1 << 20), checksum=False)
    data = event * 300
    packed = zstd(data)
    assert len(packed) * 1000 < len(data)
    files = a_log(START, payload(packed, len(data) if declared else None))

    blocks: list[EventBlock] = []
    with monkeypatch.context() as patched:
        patched.setattr(compressed_events, "_SIZE_MAX", 10 << 20)
        patched.setattr(compressed_events, "_RATIO_MAX", 100)
        with pytest.raises(FormatError, match="more than any transaction") as caught:
            blocks.extend(expand(files))

    assert len(events_of(iter(blocks))) <= (1 if declared else 12)
    assert caught.value.context["offset"] == files[NAME].offsets[3]
    assert len(events_of(expand(files))) == 302


def test_a_compression_of_later_servers_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="upgrade this package"):
        list(expand(one_transaction(payload(PACKED, len(PACKED), compression=7))))


@pytest.mark.parametrize("cut", range(40))
def test_a_payload_event_that_ends_early_is_refused(cut: int) -> None:
    whole = payload(zstd(PACKED), len(PACKED))

    with pytest.raises(FormatError):
        list(expand(one_transaction(Made(whole.type, whole.body[:cut]))))


# ------------------------------------------------------------------- MariaDB

HEAD = single_event(MARIADB_INSERT).body.index(b"\x81")


def with_rows(packed: bytes) -> Files:
    body = MARIADB_INSERT.body[:HEAD] + packed
    event = Made(EventType.WRITE_ROWS_COMPRESSED_V1, body)
    return a_log(MARIADB_START, event, XID, flavor=Flavor.MARIADB)


@pytest.mark.parametrize("version", [1, 2])
@pytest.mark.parametrize("kind", ["WRITE", "UPDATE", "DELETE"])
def test_both_versions_of_rows_events_are_read(version: int, kind: str) -> None:
    plain = EventType[f"{kind}_ROWS_V1" if version == 1 else f"{kind}_ROWS"]
    extra = b"extra" if version == 2 else b""
    body = builder.rows(plain, 1, 300, b"images" * 100, extra=extra)
    event = Made(plain, body)

    found = events_of(expand(a_log(MARIADB_START, single_event(event), XID, flavor=Flavor.MARIADB)))

    assert found == events_of(expand(a_log(MARIADB_START, event, XID, flavor=Flavor.MARIADB)))


@pytest.mark.parametrize(
    ("packed", "kind", "reason"),
    [
        (compressed(b"x" * 50, size=49), FormatError, "not have the size that it declares"),
        (compressed(b"x" * 50, size=51), FormatError, "not have the size that it declares"),
        (compressed(b"x" * 50) + b"more", FormatError, "not have the size that it declares"),
        (compressed(b"x" * 50)[:-3], FormatError, "not have the size that it declares"),
        (compressed(b"x" * 50)[:2] + bytes(20), FormatError, "is damaged"),
        (compressed(b"x" * 50, size=1 << 40), FormatError, "declares a size that no event has"),
        (compressed(b"x" * 50, algorithm=1), UnsupportedError, "upgrade this package"),
        (b"", UnsupportedError, "upgrade this package"),
        (bytes(20), UnsupportedError, "upgrade this package"),
    ],
)
def test_an_event_that_is_not_what_it_says_is_refused(
    packed: bytes, kind: type[BinlogError], reason: str
) -> None:
    files = with_rows(packed)

    with pytest.raises(kind, match=reason) as caught:
        list(expand(files))

    assert caught.value.context["offset"] == files[NAME].offsets[3]
    assert caught.value.context["event"] == "WRITE_ROWS_COMPRESSED_V1"


@pytest.mark.parametrize("plain", [MARIADB_INSERT, query("DROP TABLE a")], ids=["rows", "query"])
def test_an_event_that_is_cut_anywhere_is_refused(plain: Made) -> None:
    whole = single_event(plain)

    for cut in range(len(whole.body)):
        files = a_log(MARIADB_START, Made(whole.type, whole.body[:cut]), flavor=Flavor.MARIADB)
        with pytest.raises(BinlogError):
            list(expand(files))


def test_both_families_in_one_file_are_refused() -> None:
    good, other = payload(zstd(PACKED), len(PACKED)), single_event(MARIADB_INSERT)

    for events in ([good, other], [other, good]):
        with pytest.raises(FormatError, match="by MySQL and by MariaDB"):
            list(expand(a_log(*events, flavor=Flavor.MARIADB)))


def test_bytes_after_a_block_of_compressed_events_do_not_grow() -> None:
    """A block that unpacks to much more than it is comes out in several."""
    note = single_event(query("GRANT " + "x" * 100_000))
    files = a_log(*[MARIADB_START, note] * 50, flavor=Flavor.MARIADB)

    blocks = list(expand(files, block_bytes=1 << 20))

    assert max(len(block.data) for block in blocks) < 2 << 20
    assert len(events_of(iter(blocks))) == 101
