"""Scalars of JSON as text."""

from __future__ import annotations

import math
import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.json.document import (
    double_text,
    opaque_text,
    quote,
    variable_size,
)
from airflow_provider_binlog.errors import FormatError, TruncatedError
from tests.support.json_documents import opaque, variable_length

# As MySQL 9.7.4 prints them.
DOUBLES = [
    (0.0, "0.0"),
    (-0.0, "-0.0"),
    (1.0, "1.0"),
    (-1.5, "-1.5"),
    (0.1, "0.1"),
    (1e14, "100000000000000.0"),
    (1e15, "1e15"),
    (1.2345e15, "1.2345e15"),
    (1234567890123456.8, "1234567890123456.8"),
    (123456789012345678e0, "1.2345678901234568e17"),
    (123456.789, "123456.789"),
    (1e-14, "0.00000000000001"),
    (1e-15, "0.000000000000001"),
    (1e-16, "1e-16"),
    (1.5e300, "1.5e300"),
    (5e-324, "5e-324"),
    (1.7976931348623157e308, "1.7976931348623157e308"),
]


@pytest.mark.parametrize(("number", "text"), DOUBLES)
def test_doubles(number: float, text: str) -> None:
    assert double_text(memoryview(struct.pack("<d", number))).decode() == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_a_double_keeps_its_value_and_is_no_integer(number: float) -> None:
    text = double_text(memoryview(struct.pack("<d", number))).decode()

    assert struct.pack("<d", float(text)) == struct.pack("<d", number)
    assert set(".e") & set(text)


@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
def test_what_is_no_number_is_refused(number: float) -> None:
    with pytest.raises(FormatError, match="not a number"):
        double_text(memoryview(struct.pack("<d", number)))


# The packed form of 2024-02-29 03:04:05.123456.
MOMENT = (((2024 * 13 + 2) << 5 | 29) << 17 | 3 << 12 | 4 << 6 | 5) << 24 | 123456
TIME = (3 << 12 | 4 << 6 | 5) << 24 | 7

# As MySQL 9.7.4 prints them.
OPAQUE = [
    (10, struct.pack("<q", MOMENT), '"2024-02-29"'),
    (12, struct.pack("<q", MOMENT), '"2024-02-29 03:04:05.123456"'),
    (7, struct.pack("<q", MOMENT), '"2024-02-29 03:04:05.123456"'),
    (12, bytes(8), '"0000-00-00 00:00:00.000000"'),
    (11, struct.pack("<q", TIME), '"03:04:05.000007"'),
    (11, struct.pack("<q", -TIME), '"-03:04:05.000007"'),
    (11, struct.pack("<q", -((838 << 12 | 59 << 6 | 59) << 24)), '"-838:59:59.000000"'),
    (246, bytes.fromhex("0502 8000 00"), "0.00"),
    (246, bytes.fromhex("0502 8001 32"), "1.50"),
    (246, bytes.fromhex("0502 7ffe cd"), "-1.50"),
    (246, bytes.fromhex("0303 8007"), "0.007"),
    (253, b'a"b\n', r'"a\"b\n"'),
    (15, b"", '"base64:type15:"'),
    (15, b"\x00\xff", '"base64:type15:AP8="'),
    (252, b"abc", '"base64:type252:YWJj"'),
    (16, b"\x0a", '"base64:type16:Cg=="'),
    # A line ends after 76 characters of base64, and the text of JSON shows it.
    (15, b"a" * 57, '"base64:type15:' + "YWFh" * 19 + '"'),
    (15, b"a" * 58, '"base64:type15:' + "YWFh" * 19 + r"\nYQ==" + '"'),
]


@pytest.mark.parametrize(("kind", "data", "text"), OPAQUE)
def test_values_of_other_types(kind: int, data: bytes, text: str) -> None:
    assert opaque_text(memoryview(opaque(kind, data).data)).decode() == text


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        (10, bytes(7)),
        (12, struct.pack("<q", -1)),
        (12, struct.pack("<q", 1_000_000)),
        (12, struct.pack("<q", (10_000 * 13 << 22) << 24)),
        (10, struct.pack("<q", -(2**60))),
        (11, struct.pack("<q", 1 << 46)),
        (246, b"\x05"),
        (246, bytes.fromhex("4200") + bytes(30)),
        (246, bytes.fromhex("0506 8000 00")),
        (246, bytes.fromhex("0502 8000")),
        (246, bytes.fromhex("0502 8000 00 00")),
        (246, bytes.fromhex("0502 8000 64")),
        (253, b"\xff"),
    ],
)
def test_what_is_none_of_its_type_is_refused(kind: int, data: bytes) -> None:
    with pytest.raises(FormatError):
        opaque_text(memoryview(opaque(kind, data).data))


@given(st.integers(0, 2**35 - 1))
def test_lengths(size: int) -> None:
    wire = variable_length(size)

    assert variable_size(memoryview(wire + b"rest")) == (size, len(wire))
    for cut in range(len(wire)):
        with pytest.raises(TruncatedError):
            variable_size(memoryview(wire[:cut]))


def test_a_length_of_more_than_5_bytes_is_refused() -> None:
    with pytest.raises(FormatError, match="length"):
        variable_size(memoryview(b"\x80" * 5 + b"\0"))


def test_text_is_quoted_as_the_server_does() -> None:
    text = '\b\f\n\r\t\0\x1a"\\/\x7f\x1fé😀'

    assert quote(memoryview(text.encode())).decode() == (
        r'"\b\f\n\r\t\u0000\u001a\"\\/' + "\x7f" + r"\u001f" + 'é😀"'
    )
