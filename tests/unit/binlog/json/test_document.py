"""Binary JSON: read, printed and written."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.json.document import (
    DEPTH_MAX,
    JsonType,
    Node,
    Value,
    encode,
    open_value,
    read,
    to_text,
)
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.reference.json import parse
from tests.support.json_documents import (
    EXAMPLE,
    EXAMPLE_WIRE,
    Raw,
    document,
    in_order,
    opaque,
    text,
    trees,
)


def test_an_object_as_the_server_writes_it() -> None:
    assert to_text(EXAMPLE_WIRE).decode() == text(EXAMPLE)
    assert encode(parse(EXAMPLE_WIRE)) == EXAMPLE_WIRE


def test_no_bytes_are_null() -> None:
    assert to_text(b"") == b"null"
    assert encode(parse(b"")) == b"\x04\x00"


@given(trees, st.booleans(), st.integers(0, 9))
def test_any_document(tree: Any, large: bool, hole: int) -> None:
    wire = document(tree, large=large, hole=hole)

    assert to_text(wire).decode() == text(tree)
    assert to_text(encode(parse(wire))) == to_text(wire)


@given(trees)
def test_what_was_parsed_is_written_in_the_server_s_order(tree: Any) -> None:
    wire = encode(parse(document(tree)))

    assert encode(parse(wire)) == wire
    assert parse(wire) == parse(document(tree, large=True, hole=3))


@given(trees)
def test_a_document_cut_anywhere_is_refused(tree: Any) -> None:
    wire = document(tree)

    for size in range(1, len(wire)):
        with pytest.raises(TruncatedError):
            to_text(wire[:size])


@given(trees, st.data())
def test_broken_bytes_give_a_text_or_a_documented_error(tree: Any, data: st.DataObject) -> None:
    wire = bytearray(document(tree))
    for _ in range(data.draw(st.integers(1, 3))):
        wire[data.draw(st.integers(0, len(wire) - 1))] = data.draw(st.integers(0, 255))

    for work in (to_text, lambda each: encode(parse(each))):
        with contextlib.suppress(BinlogError):
            work(bytes(wire))


@given(st.binary(max_size=60))
def test_any_bytes_give_a_text_or_a_documented_error(wire: bytes) -> None:
    with contextlib.suppress(BinlogError):
        # Six times as long is a string of control characters, ten times numbers of a few bits.
        assert len(to_text(wire)) <= 10 * len(wire) + 4


@pytest.mark.parametrize(
    ("hexadecimal", "message"),
    [
        ("0d", "type"),
        ("10", "type"),
        ("04 03", "literal"),
        ("0c 02 c328", "UTF-8"),
        ("00 0000 0300", "header"),
        ("02 0100 0700 0d 0000", "type"),
        ("02 0100 0700 0b 0800", "outside"),
        ("02 0100 0600 04 0100", "overlap"),
        ("02 0200 0c00 0c 0a00 0c 0a00 01 61", "overlap"),
        # An array that is its own element.
        ("02 0100 0700 02 0000", "overlap"),
        ("00 0100 0c00 0c00 0100 04 0100 61", "key lies outside"),
    ],
)
def test_documents_that_break_the_format(hexadecimal: str, message: str) -> None:
    with pytest.raises(FormatError, match=message):
        to_text(bytes.fromhex(hexadecimal))


def test_a_key_twice_cannot_be_opened() -> None:
    wire = bytes.fromhex("00 0200 1400 1200 0100 1300 0100 04 0100 04 0100 61 61")

    assert to_text(wire) == b'{"a": true, "a": true}'
    with pytest.raises(FormatError, match="twice"):
        parse(wire)


def nested(depth: int) -> Any:
    tree: Any = 1
    for _ in range(depth):
        tree = [tree]
    return tree


def test_depth() -> None:
    assert to_text(document(nested(DEPTH_MAX))) == b"[" * 100 + b"1" + b"]" * 100
    for work in (to_text, parse):
        with pytest.raises(FormatError, match="too deep"):
            work(document(nested(DEPTH_MAX + 1)))


def test_an_array_of_more_than_64_kib_is_large() -> None:
    tree = list(range(30_000))
    wire = document(tree)

    assert wire[0] == JsonType.LARGE_ARRAY
    assert encode(parse(wire)) == encode(parse(document(tree, large=True)))
    assert to_text(wire).decode() == text(tree)


def test_small_members_of_a_large_object() -> None:
    tree = {"text": "x" * 70_000, "numbers": [1, -70_000, 2**33], "n": -70_000, "m": 2**32 - 1}
    opened = open_value(read(document(tree)))

    assert isinstance(opened, dict)
    assert isinstance(opened[b"numbers"], Value)
    assert opened[b"numbers"].type == JsonType.SMALL_ARRAY
    assert opened[b"n"] == Value(JsonType.INT32, (-70_000).to_bytes(4, "little", signed=True))
    assert [key.decode() for key in opened] == in_order(tree)


def test_scalars_stay_as_they_were() -> None:
    # A number in more bytes than it needs, a value of a type that nobody knows.
    tree = [Raw(0x09, b"\x01" + bytes(7), "1"), opaque(200, b"?", '"base64:type200:Pw=="')]
    node: Node = parse(document(tree))

    assert parse(encode(node)) == node
    assert to_text(encode(node)).decode() == text(tree)


def test_a_key_that_is_too_long_cannot_be_written() -> None:
    with pytest.raises(FormatError, match="key"):
        encode({b"k" * 65_536: Value(JsonType.LITERAL, b"\0")})


def test_text_takes_no_memory_but_its_own() -> None:
    wire = document([1] * 50_000, large=True)
    tracemalloc.start()
    try:
        shown = to_text(wire)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert peak < 2.5 * len(shown)
