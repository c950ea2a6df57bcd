"""capture_range: bounds, transactions that may have been rolled back, and what is counted."""

from __future__ import annotations

import io
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.binlog.header import IGNORABLE, EventType
from airflow_provider_binlog.capture.capture_range import executed_at
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import (
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    UnsupportedError,
)
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from airflow_provider_binlog.read_progress import ReadProgress
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.support import builder
from tests.support.builder import SERVER_UUID
from tests.support.logs import Made, query
from tests.unit.capture.staging import CutSource, capture, end_of, file_source, new_store
from tests.unit.capture.whole_logs import (
    CHANGE,
    CUTS,
    IDENTITY,
    XID,
    a_log,
    gtid,
    run,
    stage,
    transaction,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path


def test_every_boundary_between_transactions_is_a_stop_and_no_other_offset_is() -> None:
    events = transaction(1, *CHANGE) + transaction(2, *CHANGE)
    files = a_log(events)
    (name, file), *_ = files.items()
    ends = [*file.offsets[1:], len(file.data)]
    boundaries = {file.offsets[1], file.offsets[2], file.offsets[7], len(file.data)}

    for offset in range(FIRST_OFFSET + 1, len(file.data) + 1):
        stop = Position(name, offset)
        if offset in boundaries:
            assert capture(CutSource(files, {}), stop).stop.coordinates == stop.coordinates
            continue
        where = "inside a transaction" if offset in ends else "no event begins"
        with pytest.raises(ForeignPositionError, match=where):
            capture(CutSource(files, {}), stop)


def test_a_range_split_at_any_boundary_gives_the_same_rows_and_positions() -> None:
    events = [event for number in range(1, 7) for event in transaction(number, *CHANGE)]
    files = a_log(events[:15], events[15:])
    whole = run(files)
    boundaries = [
        Position(name, offset)
        for name, file in files.items()
        for offset in [*file.offsets[2::5], len(file.data)]
    ]

    at, rows, counts = Position("binlog.000001", FIRST_OFFSET), 0, 0
    for stop in boundaries:
        if stop.coordinates <= at.coordinates:
            continue
        part = capture(file_source(files), stop, start=at)
        assert part.start == at
        at, rows, counts = part.stop, rows + part.rows, counts + sum(part.events.values())
    assert (at, rows) == (whole.stop, whole.rows)
    assert counts == sum(whole.events.values())


def test_the_beginning_of_the_next_file_may_be_a_stop() -> None:
    files = a_log(transaction(1, *CHANGE), transaction(2, *CHANGE))

    manifest = capture(CutSource(files, {}), Position("binlog.000002", FIRST_OFFSET))

    assert manifest.rows == 1
    assert manifest.stop == Position("binlog.000002", FIRST_OFFSET, f"{SERVER_UUID}:1")


@pytest.mark.parametrize(
    "stop", [Position("binlog.000002", FIRST_OFFSET + 1), Position("binlog.000003", FIRST_OFFSET)]
)
def test_a_log_that_ends_before_the_range_is_an_error(stop: Position) -> None:
    files = a_log(transaction(1, *CHANGE))

    with pytest.raises(ConnectionLostError, match="ended before the range"):
        capture(CutSource(files, {}), stop)


@pytest.mark.parametrize("index", range(2, 7))
def test_a_start_inside_a_transaction_is_refused(index: int) -> None:
    note = Made(EventType.ROWS_QUERY, b"\x05hello")
    files = a_log([gtid(1), query("BEGIN"), note, *CHANGE, XID])
    start = Position("binlog.000001", files["binlog.000001"].offsets[index + 1])

    with pytest.raises(FormatError, match="no transaction boundary"):
        capture(file_source(files), end_of(files), start=start)


ROLLED_BACK_OR_NOT: list[tuple[str, Callable[[], list[Made]]]] = [
    ("to a savepoint", lambda: transaction(1, *CHANGE, query("ROLLBACK TO `s`"))),
    ("ends inside a transaction", lambda: [gtid(1), query("BEGIN"), *CHANGE]),
]


@CUTS
@pytest.mark.parametrize(("text", "events"), ROLLED_BACK_OR_NOT)
def test_changes_that_may_have_been_rolled_back_are_refused(
    text: str, events: Callable[[], list[Made]], cut: Sequence[int]
) -> None:
    files = a_log(events(), transaction(2, *CHANGE))

    with pytest.raises(UnsupportedError, match=text) as raised:
        run(files, cut)

    assert "offset" in raised.value.context


@CUTS
@pytest.mark.parametrize(("text", "events"), ROLLED_BACK_OR_NOT)
def test_the_same_of_other_tables_is_skipped(
    text: str, events: Callable[[], list[Made]], cut: Sequence[int]
) -> None:
    files = a_log(events(), transaction(2, *CHANGE))

    assert run(files, cut, tables=TableFilter(["crm.*"])).rows == 0


@CUTS
def test_changes_after_a_rollback_to_a_savepoint_are_staged(cut: Sequence[int]) -> None:
    files = a_log(transaction(1, query("ROLLBACK TO `s`"), *CHANGE))

    assert run(files, cut).rows == 1


@CUTS
def test_a_transaction_after_one_that_was_rolled_back_is_staged(cut: Sequence[int]) -> None:
    files = a_log(transaction(1, end=query("ROLLBACK")) + transaction(2, *CHANGE))

    assert run(files, cut).rows == 1


def test_an_xa_transaction_of_one_phase_is_committed() -> None:
    prepare = Made(EventType.XA_PREPARE, builder.xa_prepare(b"a", one_phase=True))
    begin, end = query("XA START X'61',X'',1"), query("XA END X'61',X'',1")

    assert run(a_log([gtid(1), begin, *CHANGE, end, prepare])).rows == 1


@CUTS
@pytest.mark.parametrize("captured", ["shop.a", "shop.b", "crm.*"])
@pytest.mark.parametrize("sql", ["INSERT INTO b VALUES (1)", "CALL anything()"])
def test_a_statement_that_changes_rows_is_refused_whatever_is_captured(
    sql: str, captured: str, cut: Sequence[int]
) -> None:
    # Its text may name any table, and a routine of its own any other.
    statement = Made(EventType.QUERY, builder.query(sql, database="shop", thread_id=77))
    mixed = [gtid(2), query("BEGIN"), *CHANGE, statement, XID]
    files = a_log(transaction(1, *CHANGE) + mixed + transaction(3, *CHANGE))

    with pytest.raises(UnsupportedError, match="STATEMENT or MIXED") as raised:
        run(files, cut, tables=TableFilter([captured]))

    assert raised.value.context["thread_id"] == 77
    assert raised.value.context["statement"] == sql.replace("1", "?")
    assert raised.value.context["offset"] == files["binlog.000001"].offsets[11]


@CUTS
@pytest.mark.parametrize(
    ("databases", "sql", "refused"),
    [
        (["audit"], "INSERT INTO audit.t VALUES (1)", False),
        (["audit", "shop"], "INSERT INTO audit.t VALUES (1)", True),
        (["audit"], "CREATE TABLE b AS SELECT * FROM audit.t", True),
        ([], "INSERT INTO audit.t VALUES (1)", True),
    ],
)
def test_a_statement_whose_tables_are_all_in_other_databases_is_skipped(
    databases: list[str], sql: str, *, refused: bool, cut: Sequence[int]
) -> None:
    names = b"".join(each.encode() + b"\0" for each in databases)
    status = b"\x0c" + bytes([len(databases)]) + names if databases else b""
    statement = Made(EventType.QUERY, builder.query(sql, status=status))
    mixed = [gtid(2), query("BEGIN"), *CHANGE, statement, *CHANGE, XID]
    files = a_log(transaction(1, *CHANGE) + mixed)

    if refused:
        with pytest.raises(UnsupportedError, match="STATEMENT or MIXED"):
            run(files, cut, tables=TableFilter(["shop.*"]))
    else:
        assert run(files, cut, tables=TableFilter(["shop.*"])).rows == 3


def test_offsets_after_4_gib_are_counted_further(tmp_path: Path) -> None:
    """The headers' own count has 32 bits; the file is sparse."""
    begin = (1 << 32) - 300
    path = tmp_path / "binlog.000001"
    file = builder.BinlogFile()
    head = bytes(file.data)
    events = transaction(1, *CHANGE) + transaction(2, *CHANGE) + transaction(3, *CHANGE)
    with path.open("wb") as stream:
        stream.write(head)
        stream.seek(begin)
        for each in events:
            at = stream.tell()
            size = 19 + len(each.body) + 4
            stream.write(builder.event(each.type, each.body, log_pos=at + size & 0xFFFFFFFF))
        end = stream.tell()
    store = new_store()
    start, stop = Position(path.name, begin), Position(path.name, end)

    manifest = capture(FileBlockStream([path]), stop, start=start, store=store)

    assert begin < 1 << 32 < end
    assert manifest.stop.offset == end
    (table,) = manifest.tables
    (part,) = table.parts
    read = pq.read_table(io.BytesIO(store.read(f"shop/{part.path}")))
    positions, rows = read["_pos"].to_numpy(), read["_row"].to_numpy()
    assert (np.diff(positions) > 0).all()
    assert positions[0] < 1 << 32 < positions[-1]
    assert (np.diff(rows) == np.diff(positions)).all()


def test_events_are_counted_and_skipped_ones_named() -> None:
    unknown = Made(200, b"?", flags=IGNORABLE)
    files = a_log([unknown, *transaction(1, *CHANGE), unknown])

    manifest = run(files, range(9))

    assert manifest.events == {
        "FORMAT_DESCRIPTION": 1,
        "QUERY": 1,
        "XID": 1,
        "TABLE_MAP": 1,
        "WRITE_ROWS": 1,
        "GTID": 1,
        "PREVIOUS_GTIDS": 1,
        "UNKNOWN_200": 2,
    }
    assert manifest.skipped_events == {"UNKNOWN_200": 2}


def test_an_unknown_event_without_the_flag_is_refused() -> None:
    with pytest.raises(UnsupportedError, match=r"event=UNKNOWN_200.*file=binlog.000001, offset="):
        run(a_log([Made(200, b"?")]))


def test_another_range_has_other_names() -> None:
    files = a_log(transaction(1, *CHANGE))
    store = new_store()
    paths = [
        run(files, store=store, **arguments).tables[0].parts[0].path
        for arguments in (
            {},
            {},
            {"tables": TableFilter(["shop.*"])},
            {"before_images": BeforeImages.ALL},
            {"limits": Limits(part_bytes_max=1 << 10)},
            {"identity": replace(IDENTITY, server="another")},
        )
    ]

    assert paths[0] == paths[1]
    assert len(set(paths)) == 5


def test_progress_is_reported() -> None:
    files = a_log(transaction(1, *CHANGE), transaction(2, *CHANGE))
    first, second = files.values()
    start = Position("binlog.000001", first.offsets[2])
    seen: list[ReadProgress] = []

    capture(
        file_source(files, block_bytes=60),
        end_of(files),
        start=start,
        bytes_total=1000,
        on_progress=seen.append,
    )

    read = len(first.data) - start.offset + len(second.data)
    assert (seen[-1].done, seen[-1].total) == (read, 1000)
    assert seen[-1].at == f"binlog.000002:{len(second.data)}"


def test_what_was_executed_before_a_position() -> None:
    files = a_log([event for number in (1, 2, 3) for event in transaction(number, *CHANGE)])
    file = files["binlog.000001"]
    expected = {2: "", 7: f"{SERVER_UUID}:1", 12: f"{SERVER_UUID}:1-2"}

    for block_bytes in (1, 1 << 20):
        for index, text in expected.items():
            position = Position("binlog.000001", file.offsets[index])
            assert executed_at(file_source(files, block_bytes), IDENTITY, position) == text


def test_the_beginning_of_a_file_says_it_when_the_range_is_read() -> None:
    files = a_log(transaction(1, *CHANGE))
    begin = Position("binlog.000001", FIRST_OFFSET)

    assert executed_at(file_source(files), IDENTITY, begin) is None
    assert run(files).stop.gtid == f"{SERVER_UUID}:1"


def test_a_log_from_before_the_server_had_gtids_does_not_say() -> None:
    file = builder.BinlogFile()
    offset = file.add_transaction(0, [], server=None)

    position = Position("binlog.000001", offset)

    assert executed_at(file_source({"binlog.000001": file}), IDENTITY, position) is None


def test_what_is_refused_before_the_start_is_not_read() -> None:
    # The server logged statements until somebody turned it off, and began to capture.
    refused = [gtid(1), query("INSERT INTO a VALUES (1, 2)")]
    files = a_log(refused + transaction(2, *CHANGE))
    start = Position("binlog.000001", files["binlog.000001"].offsets[4])
    store = new_store()

    staged = stage(files, start, end_of(files), store)

    assert staged.manifests[0].start == replace(start, gtid=f"{SERVER_UUID}:1")
    assert staged.manifests[0].stop.gtid == f"{SERVER_UUID}:1-2"
    assert staged.manifests[0].rows == 1


def test_a_position_inside_an_event_has_no_gtids() -> None:
    files = a_log(transaction(1, *CHANGE))
    inside = Position("binlog.000001", len(files["binlog.000001"].data) - 3)

    with pytest.raises(ForeignPositionError, match="no event begins"):
        executed_at(file_source(files), IDENTITY, inside)
