"""How values are staged that no lake type holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.charsets import MULTI_BYTE, UNICODE, decode_text
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.rows.types.strings import replace_invalid
from airflow_provider_binlog.rows.values import Bytes
from tests.reference.rows import decode_plainly
from tests.support.decoded import decode
from tests.unit.rows import wire
from tests.unit.rows.columns import decode_column, read
from tests.unit.rows.tables import kinds

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.events.table_map import TableMapColumn

REPLACE = Policies(invalid_text=InvalidText.REPLACE)
BINARY = Policies(invalid_text=InvalidText.BINARY)
NO_ZERO_DATES = Policies(zero_dates=ZeroDates.FAIL)
POLICIES = st.builds(Policies, st.sampled_from(ZeroDates), st.sampled_from(InvalidText))


def events_of(table_map: Any, *rows: list[Any]) -> Any:
    images = (wire.image(table_map, row) for row in rows)
    width = len(table_map.columns)
    return wire.rows_events(*(wire.event(EventType.WRITE_ROWS, width, each) for each in images))


# ------------------------------------------------------------------- both decoders


@settings(max_examples=150, deadline=None)
@given(columns=st.lists(kinds(), min_size=1, max_size=4), policies=POLICIES, data=st.data())
def test_both_decoders_agree_under_every_policy(
    columns: list[Any], policies: Policies, data: st.DataObject
) -> None:
    table_map = wire.table(*(kind.column for kind in columns))
    row = st.tuples(*(kind.values | st.just((None, None)) for kind in columns))
    rows = [[value for value, _ in each] for each in data.draw(st.lists(row, max_size=6))]
    events = events_of(table_map, *rows)
    if len(events):  # damage, or not
        changed = events.data.copy()
        offset = data.draw(st.integers(int(events.start[0]) + 32, int(events.end[-1])))
        changed[offset] = data.draw(st.integers(0, 255))
        events = type(events)(changed, events.start, events.end, events.type)
    layout = compile_layout(table_map, policies=policies)

    outcomes: list[Any] = []
    for decoder in (decode, decode_plainly):
        try:
            outcomes.append(decoder(layout, events))
        except BinlogError:
            outcomes.append(None)
    fast, plain = outcomes
    assert (fast is None) == (plain is None)
    if fast is not None:
        assert [array.type for array in fast.columns] == layout.schema.types
        assert list(map(repr, map(pa.Array.to_pylist, fast.columns))) == list(
            map(repr, map(pa.Array.to_pylist, plain.columns))
        )
        assert fast.unrepresentable == plain.unrepresentable
        assert fast.invalid_text == plain.invalid_text


# ------------------------------------------------------------------- zero dates


@pytest.mark.parametrize(
    "column",
    [
        wire.column(ColumnType.DATE),
        wire.column(ColumnType.DATETIME2, b"\x00"),
        wire.column(ColumnType.TIMESTAMP2, b"\x00"),
    ],
)
def test_a_zero_date_is_refused_where_it_stands(column: TableMapColumn) -> None:
    zero: Any = 0 if column.real_type == ColumnType.TIMESTAMP2 else (0, 0, 0)
    day: Any = 10**15 if column.real_type == ColumnType.TIMESTAMP2 else (2024, 2, 29)
    table_map = wire.table(column, wire.varchar(9))
    events = events_of(table_map, [day, b"a"], [None, b"b"], [zero, b"c"], [zero, b"d"])

    layout = compile_layout(table_map, policies=NO_ZERO_DATES)
    with pytest.raises(UnsupportedError, match=r"zero_dates.*table=shop.orders.*@1.*event=2"):
        decode(layout, events)
    with pytest.raises(UnsupportedError):
        decode_plainly(layout, events)
    assert len(decode(layout, events.slice(0, 2))) == 2


# ------------------------------------------------------------------- text


def test_invalid_text_is_refused_where_it_stands() -> None:
    table_map = wire.table(wire.varchar(40), wire.column(ColumnType.TINY))
    rows = [[b"good", 1] for _ in range(100)]
    rows[61][0] = rows[90][0] = b"\xff"

    with pytest.raises(FormatError, match=r"table=shop.orders.*column=@1, event=61"):
        decode(compile_layout(table_map), events_of(table_map, *rows))


def test_replaced_text_is_counted() -> None:
    column = wire.varchar(40)
    values = [b"good", b"a\xffb", b"", b"\xc3", None, b"\xe2\x82", "日本".encode()]
    stored = [None if value is None else wire.encode(column, value) for value in values]
    decoded = decode_column(column, *stored, policies=REPLACE)

    assert decoded.columns[1].to_pylist() == [
        *("good", "a\ufffdb", "", "\ufffd", None, "\ufffd", "日本")
    ]
    assert decoded.invalid_text == {"@2": 3}


def test_nothing_is_counted_where_all_is_text() -> None:
    column = wire.varchar(40)

    assert decode_column(column, b"\x01a", None, policies=REPLACE).invalid_text == {}


@pytest.mark.parametrize("charset", [*UNICODE, *MULTI_BYTE])
@given(values=st.lists(st.binary(max_size=9), max_size=300))
@settings(max_examples=20, deadline=None)
def test_ill_formed_bytes_of_every_character_set(charset: str, values: list[bytes]) -> None:
    def is_text(value: bytes) -> bool:
        try:
            decode_text(value, charset).encode()
        except (FormatError, UnicodeError):
            return False
        return True

    text, changed = replace_invalid(Bytes.of(pa.array(values, pa.binary())), charset)
    array = text.array(pa.string(), None)
    array.validate(full=True)

    assert array.to_pylist() == [decode_text(value, charset, errors="replace") for value in values]
    np.testing.assert_array_equal(changed, [not is_text(value) for value in values])


def test_enum_values_with_invalid_byte_sequences() -> None:
    enum = wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"a", b"\xff"))
    few = wire.column(ColumnType.SET, b"\x01", set_members=(b"a", b"\xff", b"c"))

    for column, values, texts, count in (
        (enum, b"\0\1\2\2", ["", "a", "\ufffd", "\ufffd"], 2),
        (few, b"\0\1\2\7", ["", "a", "\ufffd", "a,\ufffd,c"], 2),
    ):
        stored = [*(bytes([value]) for value in values), None]
        decoded = decode_column(column, *stored, policies=REPLACE)
        assert decoded.columns[1].to_pylist() == [*texts, None]
        assert decoded.invalid_text == {"@2": count}
        assert decode_column(column, b"\1", policies=REPLACE).invalid_text == {}
        with pytest.raises(FormatError):
            compile_layout(wire.table(column))


def test_text_as_bytes() -> None:
    char = wire.char(9, collation=wire.LATIN1)
    enum = wire.column(ColumnType.ENUM, b"\x01", enum_values=(b"\xfc",), collation=wire.LATIN1)
    few = wire.column(ColumnType.SET, b"\x01", set_members=(b"\xfc", b"b"), collation=wire.LATIN1)

    assert read(char, b"\x02\xfc\x81", b"\x00", None, policies=BINARY) == [b"\xfc\x81", b"", None]
    assert read(enum, b"\x01", policies=BINARY) == [b"\xfc"]
    assert read(few, b"\x03", policies=BINARY) == [b"\xfc,b"]
    column = compile_layout(wire.table(char), policies=BINARY).fields[0]
    assert (column.arrow_type, column.charset, column.mysql_type) == ("binary", "latin1", "char(9)")
