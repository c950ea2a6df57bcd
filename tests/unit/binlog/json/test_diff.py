"""Diffs of JSON documents, as PARTIAL_UPDATE_ROWS holds them."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.json.diff import Leg, apply_diffs, parse_path
from airflow_provider_binlog.binlog.json.document import to_text
from airflow_provider_binlog.errors import BinlogError, FormatError, TruncatedError
from tests.support.json_documents import Raw, document, text, trees
from tests.support.wire import lenenc_bytes

REPLACE, INSERT, REMOVE = 0, 1, 2
NOTHING = object()
TREE = {"a": [1, 2, {"b": "x"}], "c d": {"e": None}, "n": 1.5, "": [], 'q"\n': 1, "é": [[0]]}


def diff(operation: int, path: str, value: Any = NOTHING) -> bytes:
    new = b"" if value is NOTHING else lenenc_bytes(document(value))
    return bytes([operation]) + lenenc_bytes(path.encode()) + new


def after(*diffs: bytes, tree: Any = TREE) -> str:
    return to_text(apply_diffs(document(tree), b"".join(diffs))).decode()


# Paths as MySQL 9.7.4 logs them for JSON_SET, JSON_REPLACE and JSON_REMOVE.
@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ([diff(REPLACE, "$.n", "new")], TREE | {"n": "new"}),
        ([diff(REPLACE, "$.a[1]", [7])], TREE | {"a": [1, [7], {"b": "x"}]}),
        ([diff(REPLACE, "$.a[2].b", 2)], TREE | {"a": [1, 2, {"b": 2}]}),
        ([diff(REPLACE, "$.a[last]", 9)], TREE | {"a": [1, 2, 9]}),
        ([diff(REPLACE, "$.a[last-2]", 9)], TREE | {"a": [9, 2, {"b": "x"}]}),
        ([diff(REPLACE, '$."c d".e', 3)], TREE | {"c d": {"e": 3}}),
        ([diff(REPLACE, '$."q\\"\\n"', 3)], TREE | {'q"\n': 3}),
        ([diff(REPLACE, '$.""', 3)], TREE | {"": 3}),
        ([diff(REPLACE, "$.é[0][0]", 3)], TREE | {"é": [[3]]}),
        ([diff(INSERT, "$.new", {"k": 1})], TREE | {"new": {"k": 1}}),
        ([diff(INSERT, '$."c d"."\\u0001"', 1)], TREE | {"c d": {"e": None, "\x01": 1}}),
        ([diff(INSERT, "$.a[0]", 0)], TREE | {"a": [0, 1, 2, {"b": "x"}]}),
        ([diff(INSERT, "$.a[3]", 4)], TREE | {"a": [1, 2, {"b": "x"}, 4]}),
        ([diff(INSERT, "$.a[30]", 4)], TREE | {"a": [1, 2, {"b": "x"}, 4]}),
        ([diff(REMOVE, "$.a[0]")], TREE | {"a": [2, {"b": "x"}]}),
        ([diff(REMOVE, "$.a[last]")], TREE | {"a": [1, 2]}),
        ([diff(REMOVE, "$.a[2].b")], TREE | {"a": [1, 2, {}]}),
        # Each is for the document that those before it made.
        ([diff(REMOVE, "$.a[0]"), diff(REPLACE, "$.a[0]", 5)], TREE | {"a": [5, {"b": "x"}]}),
        (
            [diff(REPLACE, "$.n", {"x": [1]}), diff(INSERT, "$.n.x[1]", 2), diff(REMOVE, "$.a")],
            {key: value for key, value in TREE.items() if key != "a"} | {"n": {"x": [1, 2]}},
        ),
    ],
)
def test_diffs(changes: list[bytes], expected: Any) -> None:
    assert after(*changes) == text(expected)


def test_no_diffs_leave_the_bytes_as_they_are() -> None:
    wire = document(TREE, hole=3)

    assert apply_diffs(wire, b"") == wire


def test_what_is_not_on_the_way_is_not_looked_into() -> None:
    wire = document({"no text": Raw(0x0C, b"\x01\xff"), "n": 1})

    assert b"\x01\xff" in apply_diffs(wire, diff(REPLACE, "$.n", 2))


@pytest.mark.parametrize(
    "change",
    [
        diff(REPLACE, "$.z", 1),
        diff(REPLACE, "$.a[3]", 1),
        diff(REPLACE, "$.a[last-3]", 1),
        diff(REPLACE, "$.a.b", 1),
        diff(REPLACE, "$.n[0]", 1),
        diff(REPLACE, "$.n.x", 1),
        diff(REPLACE, "$.z.y", 1),
        diff(INSERT, "$.n", 1),
        diff(INSERT, "$[0]", 1),
        diff(REMOVE, "$.z"),
        diff(REMOVE, "$.a[3]"),
        diff(REMOVE, "$[0]"),
    ],
)
def test_a_diff_that_does_not_fit_is_refused(change: bytes) -> None:
    with pytest.raises(FormatError, match=r"JSON diff.*operation=.*path=\$"):
        after(change)


@pytest.mark.parametrize(
    "path",
    [
        *["", "$", "a", "$a", "$.", "$..a", "$.a.", "$[", "$[]", "$[-1]", "$[x]", "$[last+1]"],
        *["$.*", "$[*]", "$**.a", '$."a', '$."\\x"', '$."\\ud800"', "$[99999999999]"],
        *["$[0 to 1]", "$" + "[0]" * 101],
    ],
)
def test_paths_to_several_values_are_refused(path: str) -> None:
    with pytest.raises(FormatError, match="not a path"):
        parse_path(path.encode())


def test_a_path_that_is_not_utf8_is_refused() -> None:
    with pytest.raises(FormatError, match="not a path"):
        parse_path(b"$.\xff")


@pytest.mark.parametrize(
    ("path", "legs"),
    [
        ("$.b[1]", (b"b", 1)),
        ('$."a b".c', (b"a b", b"c")),
        ('$."a.b[1]"."1"', (b"a.b[1]", b"1")),
        ("$.$._[last][last-3]", (b"$", b"_", -1, -4)),
        ('$."\\u00e9\\"\\\\\\n"', ('é"\\\n'.encode(),)),
    ],
)
def test_paths(path: str, legs: tuple[Leg, ...]) -> None:
    assert parse_path(path.encode()) == legs


def test_diffs_cut_anywhere_are_refused() -> None:
    first, second = diff(REPLACE, "$.n", "abc"), diff(REMOVE, "$.a[0]")
    whole = first + second

    for size in range(1, len(whole)):
        if size != len(first):
            with pytest.raises(TruncatedError):
                after(whole[:size])


@pytest.mark.parametrize("operation", [3, 255])
def test_an_unknown_operation_is_refused(operation: int) -> None:
    with pytest.raises(FormatError, match="operation"):
        after(diff(operation, "$.n"))


@given(trees, st.binary(max_size=40))
def test_any_diffs_give_a_document_or_a_documented_error(tree: Any, diffs: bytes) -> None:
    with contextlib.suppress(BinlogError):
        apply_diffs(document(tree), diffs)
