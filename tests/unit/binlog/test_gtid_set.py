"""GTID sets: the algebra of a plain set of (server, tag, number), text and wire both ways."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition, decode_tag
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.unit.binlog.strategies import gtid_intervals, gtid_set

A = "4f1e6f83-e4ef-11f0-9d0c-0242ac110002"
B = "aaaaaaaa-aaaa-aaaa-aaaa-aaaaaaaaffff"

# One server, two intervals: 1-5 and 7.
UNTAGGED = bytes.fromhex(
    "0100000000000000 4f1e6f83e4ef11f09d0c0242ac110002 0200000000000000"
    "0100000000000000 0600000000000000 0700000000000000 0800000000000000"
)

# The bytes 01 ... 01 around the count 2; no tag, 1-51; then tag "abc_1" (5 << 1), 1.
TAGGED = bytes.fromhex(
    "0102000000000001"
    "4f1e6f83e4ef11f09d0c0242ac110002 00 0100000000000000 0100000000000000 3400000000000000"
    "4f1e6f83e4ef11f09d0c0242ac110002 0a6162635f31"
    "0100000000000000 0100000000000000 0200000000000000"
)


def members(each: GtidSet) -> set[tuple[str, str, int]]:
    """The plain model: every GTID by itself."""
    return {
        (uuid, tag, number)
        for uuid, tag, first, last in each.intervals()
        for number in range(first, last + 1)
    }


@pytest.mark.parametrize(
    ("text", "canonical"),
    [
        ("", ""),
        (f"{A}:1-5:7", f"{A}:1-5:7"),
        (f"{A.upper()}:7:1-5:6", f"{A}:1-7"),
        (f"{B}:1,\n{A}:1", f"{A}:1,{B}:1"),
        (f"{A}:1-51:abc_1:1:z:1,\n{B}:5:t9:77-78", f"{A}:1-51:abc_1:1:z:1,{B}:5:t9:77-78"),
        (f"{A}:Z:2:a:1", f"{A}:a:1:z:2"),
        (f" {A} : 1 - 3 ,", f"{A}:1-3"),
    ],
)
def test_text(text: str, canonical: str) -> None:
    assert str(GtidSet.parse(text)) == canonical


@pytest.mark.parametrize(
    "text",
    [
        A,
        f"{A}:",
        f"{A}:0",
        f"{A}:5-3",
        f"{A}:x y",
        f"{A}:1-",
        "nonsense:1",
        f"{A}:{2**63}",
        f"{A}:-1",
    ],
)
def test_text_that_is_no_set_is_refused(text: str) -> None:
    with pytest.raises(FormatError):
        GtidSet.parse(text)


def test_wire_without_tags() -> None:
    assert GtidSet.decode(UNTAGGED) == GtidSet.parse(f"{A}:1-5:7")
    assert GtidSet.parse(f"{A}:1-5:7").encode() == UNTAGGED


def test_wire_with_tags() -> None:
    assert GtidSet.decode(TAGGED) == GtidSet.parse(f"{A}:1-51:abc_1:1")
    assert GtidSet.parse(f"{A}:1-51:abc_1:1").encode() == TAGGED


def test_wire_of_the_empty_set() -> None:
    assert GtidSet().encode() == bytes(8)
    assert not GtidSet.decode(bytes(8))


@pytest.mark.parametrize("wire", [UNTAGGED, TAGGED])
def test_wire_cut_anywhere_is_truncated(wire: bytes) -> None:
    for size in range(len(wire)):
        with pytest.raises(TruncatedError):
            GtidSet.decode(wire[:size])


@pytest.mark.parametrize(
    "wire", [UNTAGGED + b"\0", b"\2" * 8, b"\0" * 7 + b"\1", UNTAGGED[:32] + bytes(32)]
)
def test_wire_that_is_no_set_is_refused(wire: bytes) -> None:
    with pytest.raises(FormatError):
        GtidSet.decode(wire)


@given(st.binary(max_size=100))
def test_any_bytes_give_a_set_or_a_documented_error(wire: bytes) -> None:
    with contextlib.suppress(BinlogError):
        assert GtidSet.decode(GtidSet.decode(wire).encode()) == GtidSet.decode(wire)


@given(st.text(alphabet="0123456789abcdef:-, \n_g", max_size=80))
def test_any_text_gives_a_set_or_a_documented_error(text: str) -> None:
    for each in (text, f"{A}:{text}"):
        with contextlib.suppress(BinlogError):
            assert GtidSet.parse(str(GtidSet.parse(each))) == GtidSet.parse(each)


@given(gtid_intervals)
def test_a_set_holds_what_was_added(intervals: list[tuple[str, str, int, int]]) -> None:
    added = {
        (uuid, tag, number)
        for uuid, tag, first, more in intervals
        for number in range(first, first + more + 1)
    }

    result = gtid_set(intervals)

    assert members(result) == added


@given(gtid_intervals)
def test_text_and_wire_go_both_ways(intervals: list[tuple[str, str, int, int]]) -> None:
    each = gtid_set(intervals)

    assert GtidSet.parse(str(each)) == each
    assert GtidSet.decode(each.encode()) == each


@given(gtid_intervals, gtid_intervals)
def test_algebra_is_that_of_plain_sets(
    first: list[tuple[str, str, int, int]], second: list[tuple[str, str, int, int]]
) -> None:
    a, b = gtid_set(first), gtid_set(second)
    plain_a, plain_b = members(a), members(b)

    assert members(a.union(b)) == plain_a | plain_b
    assert members(a.subtract(b)) == plain_a - plain_b
    assert a.intersects(b) == bool(plain_a & plain_b)
    assert (not a.subtract(b)) == (plain_a <= plain_b)
    assert (a == b) == (plain_a == plain_b)
    assert bool(a) == bool(plain_a)


def test_a_union_changes_by_itself() -> None:
    original = GtidSet.parse(f"{A}:1-5")
    union = original.union(GtidSet())

    union.add_interval(A, "", 6, 6)

    assert (str(original), str(union)) == (f"{A}:1-5", f"{A}:1-6")


def test_a_tag_has_letters_digits_and_underscores() -> None:
    assert decode_tag(memoryview(b"a_1")) == "a_1"
    for tag in (b"1a", b"A", b"\xff", b"a" * 33):
        with pytest.raises(FormatError):
            decode_tag(memoryview(tag))


def test_mariadb_position() -> None:
    position = MariadbGtidPosition.parse("7-2-5, 0-1-100")

    assert str(position) == "0-1-100,7-2-5"
    assert str(position.update(0, 3, 101)) == "0-3-101,7-2-5"
    assert str(position) == "0-1-100,7-2-5"
    assert str(MariadbGtidPosition.parse("")) == ""


def test_mariadb_position_of_a_list_is_the_last_of_each_domain() -> None:
    listed = [(0, 2, 9), (0, 1, 10), (3, 1, 4)]

    assert str(MariadbGtidPosition.of(listed)) == "0-1-10,3-1-4"


@pytest.mark.parametrize("text", ["0-1", "0-1-2,", "0-1-2,0-2-3", "a-b-c", "0-1--2"])
def test_mariadb_text_that_is_no_position_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="not a GTID position"):
        MariadbGtidPosition.parse(text)


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ("", "0-1-5", ""),
        ("0-1-5", "", "0-1-5"),
        ("0-1-5", "0-2-5", ""),
        ("0-1-5,7-1-1", "0-2-4,7-1-1", "0-1-5"),
        ("0-1-5,7-1-1", "7-1-9", "0-1-5"),
    ],
)
def test_mariadb_domains_that_are_ahead(one: str, other: str, expected: str) -> None:
    ahead = MariadbGtidPosition.parse(one).beyond(MariadbGtidPosition.parse(other))

    assert str(ahead) == expected
