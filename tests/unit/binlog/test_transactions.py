"""Transactions: what can follow what, how a group ends, and what must not be skipped."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.binlog.header import (
    COMPRESSED,
    IGNORABLE,
    EventHeader,
    EventType,
)
from airflow_provider_binlog.binlog.transactions import (
    PRELUDES,
    READ,
    REFUSED,
    GroupEnd,
    Scanned,
    TransactionScanner,
)
from airflow_provider_binlog.errors import FormatError, UnsupportedError
from airflow_provider_binlog.sql.statement_types import StatementType
from tests.support import builder

MYSQL = builder.parsed_format()
MARIADB = builder.parsed_format(builder.MARIADB)

GTID = (EventType.GTID, builder.gtid(1))
BEGIN = (EventType.QUERY, builder.query("BEGIN"))
XID = (EventType.XID, builder.xid(1))
TABLE_MAP = (EventType.TABLE_MAP, b"")
ROWS = (EventType.WRITE_ROWS, b"")
ROWS_V1 = (EventType.WRITE_ROWS_V1, b"")


def query(sql: str) -> tuple[EventType, bytes]:
    return EventType.QUERY, builder.query(sql)


def mariadb_gtid(flags: int) -> tuple[EventType, bytes]:
    return EventType.MARIADB_GTID, builder.mariadb_gtid(1, flags=flags, xa=(1, b"a", b"b"))


def scan(
    events: list[tuple[EventType, bytes]],
    *,
    scanner: TransactionScanner | None = None,
    mariadb: bool = False,
) -> list[Scanned]:
    scanner = scanner or TransactionScanner()
    file_format = MARIADB if mariadb else MYSQL
    return [
        scanner.feed(EventHeader(0, kind, 1, 19, 0, 0), body, file_format) for kind, body in events
    ]


def roles(scanned: list[Scanned]) -> str:
    """Return what each event is to its group."""
    found, inside = [], False
    for each in scanned:
        is_end = each.end not in {None, GroupEnd.CUT}
        inside = each.gtid is not None or (inside and each.end is None)
        found.append("end" if is_end else "inside" if inside else "outside")
        found[-1] = "begin" if each.gtid is not None else found[-1]
    return " ".join(found)


@pytest.mark.parametrize(
    ("events", "end"),
    [
        ([GTID, BEGIN, TABLE_MAP, ROWS, XID], GroupEnd.COMMITTED),
        ([GTID, BEGIN, TABLE_MAP, ROWS, query("COMMIT")], GroupEnd.COMMITTED),
        ([GTID, BEGIN, TABLE_MAP, ROWS, query("ROLLBACK")], GroupEnd.ROLLED_BACK),
        ([GTID, BEGIN, query("SAVEPOINT `s`"), TABLE_MAP, ROWS, XID], GroupEnd.COMMITTED),
        (
            [GTID, BEGIN, query("CREATE TABLE t (a int) START TRANSACTION"), ROWS, XID],
            GroupEnd.COMMITTED,
        ),
        ([GTID, BEGIN, query("DROP TEMPORARY TABLE tt"), ROWS, XID], GroupEnd.COMMITTED),
        ([(EventType.GTID_TAGGED, builder.gtid_tagged(1, "t")), BEGIN, XID], GroupEnd.COMMITTED),
        (
            [(EventType.ANONYMOUS_GTID, builder.gtid(0, server=None)), BEGIN, XID],
            GroupEnd.COMMITTED,
        ),
        ([GTID, (EventType.ROWS_QUERY, b"\0x"), BEGIN, XID], GroupEnd.COMMITTED),
        ([GTID, query("DROP TABLE t")], GroupEnd.STATEMENT),
        ([GTID, query("GRANT SELECT ON t TO u")], GroupEnd.STATEMENT),
        ([GTID, query("XA COMMIT X'61',X'62',1")], GroupEnd.XA_COMMITTED),
        ([GTID, query("XA ROLLBACK X'61',X'62',1")], GroupEnd.XA_ROLLED_BACK),
    ],
)
def test_a_group_of_mysql(events: list[tuple[EventType, bytes]], end: GroupEnd) -> None:
    scanner = TransactionScanner()

    scanned = scan(events, scanner=scanner)

    assert roles(scanned) == " ".join(["begin", *["inside"] * (len(events) - 2), "end"])
    assert scanned[-1].end is end
    assert scanner.at_boundary


@pytest.mark.parametrize(
    ("flags", "events", "end"),
    [
        (0x0C, [(EventType.ANNOTATE_ROWS, b"x"), TABLE_MAP, ROWS_V1, XID], GroupEnd.COMMITTED),
        (0x08, [TABLE_MAP, ROWS_V1, query("COMMIT")], GroupEnd.COMMITTED),
        (0x28, [query("CREATE TABLE t (a int)"), TABLE_MAP, ROWS_V1, XID], GroupEnd.COMMITTED),
        (0x29, [query("DROP TABLE t")], GroupEnd.STATEMENT),
        (0x8D, [query("XA COMMIT X'61',X'62',1")], GroupEnd.XA_COMMITTED),
        (
            0x4C,
            [
                ROWS_V1,
                query("XA END X'61',X'62',1"),
                (EventType.XA_PREPARE, builder.xa_prepare(b"a", b"b")),
            ],
            GroupEnd.PREPARED,
        ),
    ],
)
def test_a_group_of_mariadb(
    flags: int, events: list[tuple[EventType, bytes]], end: GroupEnd
) -> None:
    scanned = scan([mariadb_gtid(flags), *events], mariadb=True)

    assert roles(scanned) == " ".join(["begin", *["inside"] * (len(events) - 1), "end"])
    assert scanned[-1].end is end
    assert scanned[0].gtid is not None
    assert scanned[0].gtid.text == "0-1-1"


def test_an_xa_transaction_is_named_by_its_xid_in_both_of_its_groups() -> None:
    prepare = (EventType.XA_PREPARE, builder.xa_prepare(b"a", b"b", 3))
    start, end = query("XA START X'61',X'62',3"), query("XA END X'61',X'62',3")

    scanned = scan([GTID, start, ROWS, end, prepare, GTID, query("XA COMMIT X'61',X'62',3")])

    ends = [(each.end, each.xid) for each in scanned if each.end is not None]
    assert ends == [
        (GroupEnd.PREPARED, "X'61',X'62',3"),
        (GroupEnd.XA_COMMITTED, "X'61',X'62',3"),
    ]


def test_an_xa_transaction_in_one_phase_is_committed() -> None:
    prepare = (EventType.XA_PREPARE, builder.xa_prepare(b"a", one_phase=True))

    scanned = scan(
        [GTID, query("XA START X'61',X'',1"), ROWS, query("XA END X'61',X'',1"), prepare]
    )

    assert scanned[-1].end is GroupEnd.COMMITTED


def test_a_rollback_to_a_savepoint_has_its_statement_type() -> None:
    scanned = scan([GTID, BEGIN, ROWS, query("ROLLBACK TO `s`"), XID])

    assert scanned[3].statement_type is StatementType.ROLLBACK_TO


def test_between_groups_there_is_the_file() -> None:
    events = [
        (EventType.FORMAT_DESCRIPTION, b""),
        (EventType.PREVIOUS_GTIDS, b""),
        GTID,
        BEGIN,
        XID,
        (EventType.ROTATE, b""),
        (EventType.STOP, b""),
    ]

    assert roles(scan(events)) == "outside outside begin inside end outside outside"


def test_a_group_that_its_file_does_not_end_is_cut() -> None:
    scanned = scan([GTID, BEGIN, ROWS, (EventType.FORMAT_DESCRIPTION, b""), GTID, BEGIN, XID])

    assert scanned[3].end is GroupEnd.CUT
    assert scanned[-1].end is GroupEnd.COMMITTED


@pytest.mark.parametrize("event", [TABLE_MAP, ROWS, XID, BEGIN])
def test_a_start_inside_a_group_is_refused(event: tuple[EventType, bytes]) -> None:
    with pytest.raises(FormatError, match="no transaction boundary"):
        scan([event])


@pytest.mark.parametrize("events", [[GTID, GTID], [GTID, BEGIN, GTID]])
def test_a_group_inside_another_is_refused(events: list[tuple[EventType, bytes]]) -> None:
    with pytest.raises(FormatError, match="inside another"):
        scan(events)


@pytest.mark.parametrize("event", [TABLE_MAP, ROWS, XID])
def test_a_change_is_only_in_an_open_transaction(event: tuple[EventType, bytes]) -> None:
    with pytest.raises(FormatError, match="a change outside a transaction"):
        scan([GTID, event])


def test_xa_start_inside_a_transaction_is_refused() -> None:
    """The server refuses it (XAER_OUTSIDE, XAER_RMFAIL)."""
    with pytest.raises(FormatError, match="XA START inside a transaction") as caught:
        scan([GTID, BEGIN, query("XA START X'61',X'62',1")])

    assert caught.value.context["statement"] == "XA START X?,X?,?"


@pytest.mark.parametrize("events", [[GTID], [GTID, BEGIN], [GTID, BEGIN, ROWS]])
def test_a_file_may_end_anywhere(events: list[tuple[EventType, bytes]]) -> None:
    assert scan([*events, (EventType.STOP, b"")])[-1].end is GroupEnd.CUT


@pytest.mark.parametrize("kind", sorted((REFUSED.keys() - PRELUDES) | COMPRESSED))
def test_what_may_carry_row_changes_is_refused_with_what_to_change(kind: EventType) -> None:
    with pytest.raises(UnsupportedError, match=f"{kind.name}"):
        scan([GTID, (kind, bytes(2))])


def test_an_incident_says_what_was_lost() -> None:
    lost = (EventType.INCIDENT, builder.incident("the cache was full"))

    with pytest.raises(UnsupportedError, match="lost events") as caught:
        scan([GTID, lost])

    assert caught.value.context["number"] == 1
    assert caught.value.context["said"] == "the cache was full"


@pytest.mark.parametrize(
    ("kind", "hint"),
    [
        (EventType.PARTIAL_ROW_DATA, "raise binlog_row_event_fragment_threshold"),
        (EventType.EXECUTE_LOAD_QUERY, "binlog_format=STATEMENT or MIXED"),
        (EventType.INCIDENT, "new snapshot"),
    ],
)
def test_the_hint_names_the_setting(kind: EventType, hint: str) -> None:
    with pytest.raises(UnsupportedError, match=hint) as caught:
        TransactionScanner().feed(EventHeader(0, kind, 1, 19, 77, 0), bytes(2), MYSQL)

    assert caught.value.context["event"] == kind.name
    assert caught.value.context["log_pos"] == 77


def test_a_statement_that_changes_rows_is_refused_with_session_and_text() -> None:
    events = [GTID, BEGIN, (EventType.INTVAR, bytes(9)), query("/* hi */ insert INTO t VALUES (1)")]

    with pytest.raises(UnsupportedError, match="STATEMENT or MIXED") as caught:
        scan(events)

    assert caught.value.context["thread_id"] == 7
    assert caught.value.context["database"] == "shop"
    assert caught.value.context["statement"] == "insert INTO t VALUES (?)"


def test_unknown_events_are_skipped_only_as_their_flag_allows() -> None:
    scanner = TransactionScanner()

    skipped = scanner.feed(EventHeader(0, 200, 1, 19, 0, IGNORABLE), b"", MYSQL)

    assert skipped == Scanned()
    assert scanner.skipped == {"UNKNOWN_200": 1}
    with pytest.raises(UnsupportedError, match="event=UNKNOWN_200"):
        scanner.feed(EventHeader(0, 200, 1, 19, 0, 0), b"", MYSQL)
    with pytest.raises(FormatError, match="event=UNKNOWN"):
        scanner.feed(EventHeader(0, 0, 1, 19, 0, 0), b"", MYSQL)


@pytest.mark.parametrize("kind", sorted((REFUSED.keys() - PRELUDES) | COMPRESSED))
def test_the_ignorable_flag_excuses_no_event_that_may_carry_row_changes(kind: EventType) -> None:
    with pytest.raises(UnsupportedError):
        TransactionScanner().feed(EventHeader(0, kind, 1, 19, 0, IGNORABLE), bytes(2), MYSQL)


def test_every_known_type_is_read_or_refused() -> None:
    remaining = frozenset(EventType) - READ - REFUSED.keys() - COMPRESSED

    assert remaining == {EventType.UNKNOWN, EventType.IGNORABLE}
