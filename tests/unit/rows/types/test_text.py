"""Text in every character set, to UTF-8."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.charsets import MULTI_BYTE, SINGLE_BYTE, decode_text
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types import strings
from airflow_provider_binlog.rows.types.strings import to_utf8
from airflow_provider_binlog.rows.values import Bytes
from tests.unit.rows import wire
from tests.unit.rows.columns import read

UNICODE = {"utf8mb4": "utf-8", "utf8mb3": "utf-8", "ucs2": "utf-16-be", "utf16": "utf-16-be"}
UNICODE |= {"utf16le": "utf-16-le", "utf32": "utf-32-be"}
# Without the control characters: `_each_to_utf8` has a test of its own.
TEXTS = st.lists(st.text(st.characters(codec="utf-8", min_codepoint=32), max_size=12), min_size=1)


def convert(charset: str, *values: bytes) -> list[str]:
    """Return the values as `to_utf8` reads them."""
    array = to_utf8(Bytes.of(pa.array(values, pa.binary())), charset).array(pa.string(), None)
    array.validate(full=True)
    texts: list[Any] = array.to_pylist()
    return texts


@pytest.mark.parametrize(("charset", "codec"), UNICODE.items())
@given(texts=TEXTS)
def test_unicode(charset: str, codec: str, texts: list[str]) -> None:
    values = [text.encode(codec) for text in texts]

    assert convert(charset, *values) == texts


@pytest.mark.parametrize("charset", sorted(SINGLE_BYTE))
def test_every_byte_of_a_single_byte_set(charset: str) -> None:
    every = bytes(range(256))
    values = [every, b"", *(bytes([byte]) for byte in every), b"plain"]

    assert convert(charset, *values) == [decode_text(value, charset) for value in values]


@pytest.mark.parametrize("charset", sorted(MULTI_BYTE))
def test_values_of_a_multi_byte_set_keep_apart(charset: str) -> None:
    codec = MULTI_BYTE[charset][0]
    values = [text.encode(codec) for text in ("", "日本", "a", "", "中\n本", "\x00\x01", "")]

    assert convert(charset, *values) == [decode_text(value, charset) for value in values]


@pytest.mark.parametrize("charset", ["gbk", "ucs2", "utf16le", "utf32"])
def test_every_control_character_in_use(charset: str) -> None:
    codec = UNICODE.get(charset, "gbk")
    texts = ["".join(map(chr, range(32))), "中", "", "a"]

    assert convert(charset, *(text.encode(codec) for text in texts)) == texts


@pytest.mark.parametrize("charset", ["latin1", "cp1251", "gbk", "ucs2", "utf16le", "utf32"])
def test_a_value_alone_is_read_as_beside_others(charset: str) -> None:
    text = "bé" if charset == "latin1" else "да"
    value = text.encode(UNICODE.get(charset, charset))

    assert convert(charset, value) == [text]
    assert convert(charset, b"", value) == ["", text]


@pytest.mark.parametrize(
    ("charset", "value"),
    [
        ("utf8mb4", b"\xc3"),
        ("utf8mb4", b"\xed\xa0\x80"),
        ("utf8mb3", b"a\xff"),
        ("gbk", b"\x81"),
        ("ucs2", b"\x00"),
        ("ucs2", b"\xd8\x00"),
        ("utf16", b"\xd8\x00"),
        ("utf32", b"\x00\x11\x00\x00"),
        ("utf32", b"\x00\x00"),
    ],
)
def test_invalid_byte_sequences_are_refused(charset: str, value: bytes) -> None:
    for values in ([value], [b"", value], [value, b"", value]):
        with pytest.raises(FormatError):
            convert(charset, *values)


@pytest.mark.parametrize("charset", ["latin1", "gbk", "utf16"])
def test_more_than_an_array_holds_is_refused(charset: str) -> None:
    values = ["éé".encode("gbk" if charset == "gbk" else UNICODE.get(charset, charset))] * 2

    assert convert(charset, *values) == ["éé", "éé"]
    with patch.object(strings, "OFFSET_MAX", 7), pytest.raises(pa.ArrowCapacityError):
        convert(charset, *values)


def test_a_character_cut_between_two_values_is_refused() -> None:
    for charset, first, second in (
        ("utf8mb4", b"\xc3", b"\xa9"),
        ("utf16", b"\xd8\x3d", b"\xde\x00"),
        ("utf16le", b"\x3d\xd8", b"\x00\xde"),
        ("gbk", b"\xd6", b"\xd0"),
    ):
        with pytest.raises(FormatError):
            convert(charset, b"a\0" if charset == "utf16le" else b"", first, second)


def test_the_error_names_table_and_column() -> None:
    with pytest.raises(FormatError, match=r"UTF-8.*table=shop.orders.*column=@2"):
        read(wire.varchar(40), b"\x01\xff")


@pytest.mark.parametrize("collation", [wire.UTF8MB4, wire.LATIN1])
def test_char_of_more_than_255_bytes(collation: int) -> None:
    # MySQL: CHAR(255) in utf8mb4 has the metadata ce fc, 1020 bytes.
    column = wire.char(1020, collation=collation)

    assert column.metadata == b"\xce\xfc"
    assert read(column, b"\x02\x00hi", b"\x00\x00", None) == ["hi", "", None]
