"""Character sets: text as the server converts it, whole sets compared in the integration tests."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.charsets import (
    BYTES_PER_CHARACTER,
    CHANGED,
    COLLATIONS,
    MULTI_BYTE,
    SINGLE_BYTE,
    UNICODE,
    charset_of,
    decode_identifier,
    decode_text,
    single_byte_table,
)
from airflow_provider_binlog.errors import BinlogError, FormatError, UnsupportedError

TEXT_SETS = sorted({*SINGLE_BYTE, *MULTI_BYTE, *UNICODE})


@pytest.mark.parametrize(
    ("collation", "charset"),
    [
        (8, "latin1"),
        (28, "gbk"),
        (63, "binary"),
        (255, "utf8mb4"),
        (1048, "gb2312"),
        (2304, "utf8mb4"),
    ],
)
def test_a_collation_belongs_to_a_character_set(collation: int, charset: str) -> None:
    assert charset_of(collation) == charset


def test_a_collation_of_no_server_is_refused() -> None:
    with pytest.raises(UnsupportedError, match="collation_id=9999"):
        charset_of(9999)


def test_every_set_is_described_once() -> None:
    assert sorted([*TEXT_SETS, "binary"]) == sorted(COLLATIONS) == sorted(BYTES_PER_CHARACTER)
    assert not set(SINGLE_BYTE) & set(MULTI_BYTE)
    assert set(CHANGED) <= set(MULTI_BYTE)


# CONVERT(x'...' USING utf8mb4) of MySQL 9.7 and MariaDB 10.11, where Python's codec says otherwise.
@pytest.mark.parametrize(
    ("charset", "data", "text"),
    [
        ("latin1", b"\x80\x81\xfc", "€\x81ü"),
        ("cp866", b"\xfc\xfd", "ⁿ²"),
        ("greek", b"\xa1\xa4", "ʽ?"),
        ("hebrew", b"\xaf\xa1", "‾?"),
        ("koi8u", b"\x95", "•"),
        ("cp1256", b"\x8a", "?"),
        ("tis620", b"\xa1\xdb", "ก\ufffd"),
        ("swe7", b"[@]\x80", "ÄÉÅ?"),
        ("dec8", b"\xa8\xd7\xfd", "¤Œÿ"),
        ("geostd8", b"\xc0\xfd", "ა№"),
        ("armscii8", b"\xb2\xff", "Ա'"),
        ("keybcs2", b"\x80\xff", "Č\xa0"),
        ("ascii", b"a\x80", "a?"),
        ("sjis", b"\x81\x5fa\xb1", "\\aｱ"),
        ("sjis", b"\x81\xad", "?"),
        ("cp932", b"\x87\x40", "①"),
        ("ujis", b"\xa1\xc0\xf5\xa1\x8f\xfe\xfe", "\\\ue000\ue757"),
        ("eucjpms", b"\xad\xa1\xa1\xc1~\x8f\xf3\xf3\x8e\xb1", "①～~ⅰｱ"),
        ("euckr", b"\x81\x41", "갂"),
        ("big5", b"\xf9\xd6\xa2\x41\xa1\xfe", "碁／\ufffd"),
        ("gbk", b"\x81\x40\xa1\x40", "丂?"),
        ("gb2312", b"\xb0\xa1\xa2\xa1", "啊?"),
        ("gb18030", b"\xa8\xbc\x81\x35\xf4\x37\x84\x31\xa5\x30", "ḿ\ue7c7?"),
        ("utf16le", b"\x3d\xd8\x00\xde", "😀"),
        ("utf32", b"\x00\x01\xf6\x00", "😀"),
        ("ucs2", b"\x00a\x20\xac", "a€"),
        ("utf8mb4", "😀".encode(), "😀"),
    ],
)
def test_text_is_what_the_server_converts_to(charset: str, data: bytes, text: str) -> None:
    assert decode_text(data, charset) == text
    assert decode_text(memoryview(data), charset, errors="replace") == text


@pytest.mark.parametrize(
    ("charset", "data"),
    [
        ("utf8mb4", b"a\xff"),
        ("utf16", b"\xd8\x3d"),
        ("ucs2", b"\x00"),
        ("gbk", b"a\x81"),
        ("ujis", b"a\xa1\xc0\xa1"),
        ("cp932", b"\x81\x20"),
    ],
)
def test_ill_formed_text_is_refused_or_replaced(charset: str, data: bytes) -> None:
    with pytest.raises(FormatError, match=rf"\(charset={charset}\)$"):
        decode_text(data, charset)
    assert "\ufffd" in decode_text(data, charset, errors="replace")


@pytest.mark.parametrize("charset", ["binary", "klingon"])
def test_invalid_byte_sequences_are_refused(charset: str) -> None:
    with pytest.raises(UnsupportedError, match=charset):
        decode_text(b"", charset)


@pytest.mark.parametrize("charset", SINGLE_BYTE)
def test_a_table_holds_the_character_of_every_byte(charset: str) -> None:
    table = single_byte_table(charset)

    assert table is not None
    assert len(table) == 256
    assert decode_text(bytes(range(256)), charset) == "".join(table)
    assert BYTES_PER_CHARACTER[charset] == 1


@pytest.mark.parametrize("charset", sorted({*MULTI_BYTE, *UNICODE}))
def test_other_sets_have_no_table(charset: str) -> None:
    assert single_byte_table(charset) is None


@given(st.sampled_from(TEXT_SETS), st.lists(st.text(max_size=5), max_size=5))
def test_values_may_be_decoded_together(charset: str, texts: list[str]) -> None:
    codec = next(
        table[charset][0] for table in (SINGLE_BYTE, MULTI_BYTE, UNICODE) if charset in table
    )
    values = [text.replace("\0", "").encode(codec, "ignore") for text in texts]
    nul = bytes(UNICODE[charset][1] if charset in UNICODE else 1)

    together = decode_text(nul.join(values), charset)

    assert together == "\0".join(decode_text(value, charset) for value in values)


@given(st.sampled_from(TEXT_SETS), st.binary(max_size=12))
def test_any_bytes_give_text_or_a_documented_error(charset: str, data: bytes) -> None:
    decode_text(data, charset, errors="replace")
    with contextlib.suppress(BinlogError):
        decode_text(data, charset)


def test_names_are_utf8() -> None:
    assert decode_identifier("größe".encode()) == "größe"
    with pytest.raises(FormatError, match="name=ff"):
        decode_identifier(b"\xff")
