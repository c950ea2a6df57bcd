"""ExecutedGtids: the same as adding one GTID after another to a plain set."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.blocks.transactions import TransactionReader
from airflow_provider_binlog.capture.gtids import ExecutedGtids
from airflow_provider_binlog.errors import ForeignPositionError, TruncatedError
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.builder import SERVER_UUID, BinlogFile
from tests.support.logs import OTHER_SERVER, split_blocks

if TYPE_CHECKING:
    from collections.abc import Sequence

Gtid = tuple[str, str, int]
GTIDS = st.lists(
    st.tuples(st.sampled_from([SERVER_UUID, OTHER_SERVER]), st.sampled_from(["", "t", "u"]),
              st.integers(1, 30)),
    unique=True,
    max_size=25,
)  # fmt: skip


def a_file(gtids: Sequence[Gtid], executed: GtidSet | None) -> BinlogFile:
    file = BinlogFile()
    if executed is not None:
        file.add(EventType.PREVIOUS_GTIDS, builder.previous_gtids(executed))
    for server, tag, number in gtids:
        file.add_transaction(number, [], server=server, tag=tag)
    return file


def a_mariadb_file(gtids: Sequence[tuple[int, int, int]], listed: str | None) -> BinlogFile:
    file = BinlogFile(builder.MARIADB)
    if listed is not None:
        known = MariadbGtidPosition.parse(listed).domains.items()
        body = builder.mariadb_gtid_list([(domain, *last) for domain, last in known])
        file.add(EventType.MARIADB_GTID_LIST, body.ljust(6, b"\0"))
    for domain, server, sequence in gtids:
        body = builder.mariadb_gtid(sequence, domain=domain)
        file.add(EventType.MARIADB_GTID, body, server_id=server)
        file.add(EventType.XID, builder.xid(1))
    return file


def read(
    executed: ExecutedGtids,
    log: BinlogFile,
    cut: Sequence[int] = (),
    *,
    file: str = "binlog.000001",
) -> str | None:
    transactions = TransactionReader()
    for block in split_blocks(file, log, cut):
        seen = transactions.read(block)
        executed.read(block, seen.prefix[1:], seen.number[1:], transactions.prefixes)
    return executed.text


CUT = st.lists(st.integers(1, 100), max_size=8)


@given(GTIDS, GTIDS, CUT)
@settings(max_examples=60)
def test_as_one_after_another(before: list[Gtid], gtids: list[Gtid], cut: list[int]) -> None:
    expected = GtidSet()
    for gtid in before:
        expected.add_interval(*gtid, gtid[2])
    previous = expected.union(GtidSet())
    new = [gtid for gtid in gtids if gtid not in before]
    for gtid in new:
        expected.add_interval(*gtid, gtid[2])

    known = read(ExecutedGtids(Flavor.MYSQL, str(previous)), a_file(new, None), cut)
    said = read(ExecutedGtids(Flavor.MYSQL, None), a_file(new, previous), cut)

    assert known == said == str(expected)


@given(GTIDS.filter(len), st.data())
@settings(max_examples=30)
def test_what_was_executed_before_is_refused_however_blocks_are_cut(
    gtids: list[Gtid], data: st.DataObject
) -> None:
    again = data.draw(st.sampled_from(gtids))
    cut = data.draw(CUT)

    for known, log in (("", [*gtids, again]), (":".join(filter(None, map(str, again))), gtids)):
        with pytest.raises(ForeignPositionError, match="executed before"):
            read(ExecutedGtids(Flavor.MYSQL, known), a_file(log, None), cut)


def test_a_log_that_was_reset_and_has_grown_again_is_refused() -> None:
    # After the position comes 11, which was before it in the previous log.
    executed = ExecutedGtids(Flavor.MYSQL, f"{SERVER_UUID}:1-100")
    reset = GtidSet.parse(f"{SERVER_UUID}:1-10")

    with pytest.raises(ForeignPositionError, match=f"gtids={SERVER_UUID}:11"):
        read(executed, a_file([(SERVER_UUID, "", 11)], reset))


def test_what_a_backup_brought_and_no_file_says_stays() -> None:
    executed = ExecutedGtids(Flavor.MYSQL, f"{SERVER_UUID}:1-2,{OTHER_SERVER}:1-9")

    text = read(executed, a_file([(SERVER_UUID, "", 3)], GtidSet.parse(f"{SERVER_UUID}:1-2")))

    assert text == f"{SERVER_UUID}:1-3,{OTHER_SERVER}:1-9"


def test_a_file_that_was_cut_between_two_transactions_is_noticed_at_the_next() -> None:
    executed = ExecutedGtids(Flavor.MYSQL, None)
    read(executed, a_file([(SERVER_UUID, "", 1), (SERVER_UUID, "", 2)], GtidSet()))

    following = a_file([(SERVER_UUID, "", 4)], GtidSet.parse(f"{SERVER_UUID}:1-3"))

    with pytest.raises(TruncatedError, match=f"missing.*gtids={SERVER_UUID}:3"):
        read(executed, following, file="binlog.000002")


def test_of_mariadb_too() -> None:
    executed = ExecutedGtids(Flavor.MARIADB, None)
    read(executed, a_mariadb_file([(0, 1, 5), (7, 1, 5)], ""))

    following = a_mariadb_file([(0, 1, 7)], "0-2-6,7-1-5")

    with pytest.raises(TruncatedError, match=r"missing.*gtids=0-2-6"):
        read(executed, following, file="binlog.000002")


def test_a_stop_that_was_moved_past_transactions_is_refused_at_the_next_file() -> None:
    """Its digest may be right: somebody made it again. Moved back, its transactions say so."""
    mysql = ExecutedGtids(Flavor.MYSQL, f"{SERVER_UUID}:1-4")
    mariadb = ExecutedGtids(Flavor.MARIADB, "0-1-4")
    # Without number 5, after which the stop is now.
    read(mysql, a_file([(SERVER_UUID, "", 6)], None))
    read(mariadb, a_mariadb_file([(2, 1, 6)], None))

    with pytest.raises(TruncatedError, match=f"not those of its place.*gtids={SERVER_UUID}:5"):
        read(mysql, a_file([], GtidSet.parse(f"{SERVER_UUID}:1-6")), file="binlog.000002")
    with pytest.raises(TruncatedError, match=r"not those of its place.*gtids=0-1-5"):
        read(mariadb, a_mariadb_file([], "0-1-5,2-1-6"), file="binlog.000002")


def test_a_transaction_that_its_file_does_not_end_may_come_again() -> None:
    # The server crashed, and gave the number to another transaction.
    executed = ExecutedGtids(Flavor.MYSQL, f"{SERVER_UUID}:1")
    cut = a_file([(SERVER_UUID, "", 2)], GtidSet.parse(f"{SERVER_UUID}:1"))
    read(executed, cut)

    following = a_file([(SERVER_UUID, "", 2)], GtidSet.parse(f"{SERVER_UUID}:1"))

    assert read(executed, following, file="binlog.000002") == f"{SERVER_UUID}:1-2"


def test_unknown_until_the_log_says_it() -> None:
    executed = ExecutedGtids(Flavor.MYSQL, None)

    assert read(executed, a_file([(SERVER_UUID, "", 5)], None)) is None
    assert read(executed, a_file([], GtidSet())) == ""


def test_transactions_without_a_name_change_nothing() -> None:
    file = BinlogFile()
    file.add_transaction(0, [], server=None)

    assert read(ExecutedGtids(Flavor.MYSQL, f"{SERVER_UUID}:7"), file) == f"{SERVER_UUID}:7"


MARIADB_GTIDS = st.lists(
    st.tuples(st.sampled_from([0, 1, 7]), st.sampled_from([1, 2, 300]), st.integers(1, 40)),
    max_size=20,
)


@given(MARIADB_GTIDS, MARIADB_GTIDS, CUT)
@settings(max_examples=60)
def test_of_mariadb_the_last_of_each_domain(
    before: list[tuple[int, int, int]], gtids: list[tuple[int, int, int]], cut: list[int]
) -> None:
    expected = MariadbGtidPosition.of(before)
    listed = str(expected)
    for gtid in gtids:
        expected = expected.update(*gtid)

    known = read(ExecutedGtids(Flavor.MARIADB, listed), a_mariadb_file(gtids, None), cut)
    said = read(ExecutedGtids(Flavor.MARIADB, None), a_mariadb_file(gtids, listed), cut)

    assert known == said == str(expected)


def test_of_mariadb_unknown_until_the_log_says_it() -> None:
    executed = ExecutedGtids(Flavor.MARIADB, None)

    assert read(executed, a_mariadb_file([(0, 1, 5)], None)) is None
