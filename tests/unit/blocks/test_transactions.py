"""TransactionReader: whole blocks are read as the plain scanner reads one event after another."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.header import ROWS, EventType
from airflow_provider_binlog.binlog.transactions import GroupEnd, Scanned, TransactionScanner
from airflow_provider_binlog.blocks.transactions import NO_NAME, TransactionReader
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.position import Flavor
from tests.reference.events import read_file
from tests.support import builder, logs
from tests.support.builder import BinlogFile
from tests.support.logs import Made, cuts, query, split_blocks, write_files

if TYPE_CHECKING:
    from collections.abc import Sequence

FLAVORS = st.sampled_from(list(Flavor))
Coordinates = tuple[str, int]


class Follower:
    """What a log says, event by event.

    Attributes:
        named: Of each rows event: where it is, where its transaction begins, GTID, commit time.
        noted: Of each event that ends a group other than by XID, or is a statement: what it is.
        open: Where a transaction is open, of each event: after it.
        error: Class and coordinates of the first refusal.
    """

    def __init__(self, files: dict[str, BinlogFile]) -> None:
        self.named: list[tuple[Coordinates, Coordinates, str | None, int]] = []
        self.noted: dict[Coordinates, tuple[Any, ...]] = {}
        self.open: dict[Coordinates, bool] = {}
        self.error: tuple[type[BinlogError], Coordinates] | None = None
        self.scanner = TransactionScanner()
        own: tuple[Coordinates, str | None, int] = ("", 0), None, 0
        for name, file in files.items():
            for event in read_file(bytes(file)):
                at = name, event.offset
                try:
                    seen = self.scanner.feed(event.header, event.body, event.format)
                except BinlogError as error:
                    self.error = type(error), at
                    return
                if seen.gtid is not None:
                    own = at, seen.gtid.text, event.header.timestamp * 1_000_000
                    if seen.gtid.commit_timestamp_us:
                        own = *own[:2], seen.gtid.commit_timestamp_us
                if event.header.type in ROWS:
                    self.named.append((at, *own))
                if is_noted(seen) and event.header.type != EventType.XID:
                    self.noted[at] = shown(seen)
                self.open[at] = not self.scanner.at_boundary


def is_noted(seen: Scanned) -> bool:
    opens = seen.query is not None and seen.query.sql == "BEGIN"
    return not opens and (seen.end is not None or seen.query is not None)


def shown(seen: Scanned) -> tuple[Any, ...]:
    return seen.end, seen.statement_type, seen.xid, seen.query and seen.query.sql


class Reader(Follower):
    """The same, block by block."""

    def __init__(self, files: dict[str, BinlogFile], cut: dict[str, list[int]]) -> None:
        self.named, self.noted, self.open, self.error = [], {}, {}, None
        self.reader = TransactionReader()
        begin: Coordinates = "", 0
        for name, file in files.items():
            for block in split_blocks(name, file, cut[name]):
                try:
                    read = self.reader.read(block)
                except BinlogError as error:
                    where = error.context
                    self.error = type(error), (str(where["file"]), int(str(where["offset"])))
                    return
                coordinates = [(name, offset) for offset in block.offset.tolist()]
                begins = [begin, *(coordinates[start] for start in read.start[1:].tolist())]
                for index, kind in enumerate(block.type.tolist()):
                    own = int(read.of_event[index])
                    prefix, number = int(read.prefix[own]), int(read.number[own])
                    text = f"{self.reader.prefixes[prefix]}{number}" if prefix != NO_NAME else None
                    if kind in ROWS:
                        commit_ts = int(read.commit_ts[own])
                        self.named.append((coordinates[index], begins[own], text, commit_ts))
                for index, seen in read.scanned.items():
                    if is_noted(seen) and block.type[index] != EventType.XID:
                        self.noted[coordinates[index]] = shown(seen)
                begin = begins[-1]
                self.open[coordinates[-1]] = read.ends_open
                assert read.ends_open is not self.reader.at_boundary


def check(files: Sequence[Sequence[Made]], flavor: Flavor, data: st.DataObject) -> None:
    written = write_files(files, flavor)
    plain = Follower(written)
    reader = Reader(written, {name: data.draw(cuts(file)) for name, file in written.items()})

    assert reader.error == plain.error
    assert reader.named == plain.named[: len(reader.named)]
    assert reader.noted.items() <= plain.noted.items()
    assert reader.open.items() <= plain.open.items()
    if plain.error is None:
        assert reader.named == plain.named
        assert reader.noted == plain.noted
        assert reader.reader.skipped == plain.scanner.skipped


@settings(max_examples=80)
@given(FLAVORS, st.data())
def test_any_log_in_any_blocks_is_read_as_by_the_scanner(
    flavor: Flavor, data: st.DataObject
) -> None:
    check(data.draw(logs.group_lists(flavor)), flavor, data)


@settings(max_examples=80)
@given(FLAVORS, st.data())
def test_a_log_that_is_not_as_it_must_be_is_refused_as_by_the_scanner(
    flavor: Flavor, data: st.DataObject
) -> None:
    check(data.draw(logs.broken(flavor)), flavor, data)


@settings(max_examples=30)
@given(FLAVORS, st.data())
def test_names_alone_are_those_of_all_transactions_and_nothing_is_refused(
    flavor: Flavor, data: st.DataObject
) -> None:
    files = data.draw(logs.group_lists(flavor))
    for events in files:
        events.insert(0, Made(EventType.TRANSACTION_PAYLOAD))
    written = write_files(files, flavor)

    reader, names, expected = TransactionReader(), [], []
    for name, file in written.items():
        for block in split_blocks(name, file, data.draw(cuts(file))):
            prefix, number = reader.read_names(block)
            names += [
                f"{reader.prefixes[each]}{own}" if each != NO_NAME else None
                for each, own in zip(prefix.tolist(), number.tolist(), strict=True)
            ]
        scanner = TransactionScanner()
        for event in read_file(bytes(file)):
            if event.header.type in logs.STARTS:
                scanner.reset()
                gtid = scanner.feed(event.header, event.body, event.format).gtid
                expected.append(gtid.text if gtid else "")
    assert names == expected


GTID = Made(EventType.GTID, builder.gtid(1))
SECOND = Made(EventType.GTID, builder.gtid(2))
XID = Made(EventType.XID, builder.xid(1))
CHANGES = [
    logs.maps(logs.TABLES[0], Flavor.MYSQL),
    logs.insert(logs.TABLES[0], [1, 2]),
]


def read(events: Sequence[Made], cut: Sequence[int] = ()) -> TransactionReader:
    (name, file), *_ = write_files([events], Flavor.MYSQL).items()
    reader = TransactionReader()
    for block in split_blocks(name, file, cut):
        reader.read(block)
    return reader


@pytest.mark.parametrize("cut", [(), (5,), (6,)])
def test_a_plain_transaction_inside_another_is_refused(cut: tuple[int, ...]) -> None:
    # Each of the two would pass alone: what is between them is wrong.
    events = [GTID, query("BEGIN"), *CHANGES, SECOND, query("BEGIN"), *CHANGES, XID]

    with pytest.raises(FormatError, match="inside another") as raised:
        read(events, cut)

    assert raised.value.context["file"] == "binlog.000001"


def test_a_number_below_1_is_refused_in_a_plain_transaction_too() -> None:
    zero = Made(EventType.GTID, builder.gtid(0))

    with pytest.raises(FormatError, match="number below 1"):
        read([zero, query("BEGIN"), *CHANGES, XID])


def test_changes_after_a_note_are_refused_where_no_transaction_is_open() -> None:
    note = Made(EventType.ROWS_QUERY, b"\x05hello")

    with pytest.raises(FormatError, match="no transaction boundary"):
        read([note, *CHANGES])


@pytest.mark.parametrize(
    "statement", ["begin", "BEGIN ", "/* x */ BEGIN", "BEGIN /* a comment that is longer */"]
)
def test_every_spelling_of_begin_begins_a_transaction(statement: str) -> None:
    assert read([GTID, query(statement), *CHANGES, XID]).at_boundary


def test_what_only_ends_like_begin_is_none() -> None:
    with pytest.raises(UnsupportedError, match="statement=DELETE"):
        read([GTID, query("DELETE FROM t WHERE BEGIN"), *CHANGES, XID])


def test_a_file_that_ends_inside_a_transaction_is_reported_at_the_next_one() -> None:
    files = write_files(
        [[GTID, query("BEGIN"), *CHANGES], [SECOND, query("BEGIN"), XID]], Flavor.MYSQL
    )
    reader = TransactionReader()
    found = [
        seen.end
        for name, file in files.items()
        for block in split_blocks(name, file)
        for seen in reader.read(block).scanned.values()
    ]

    assert found.count(GroupEnd.CUT) == 1
    assert reader.at_boundary
