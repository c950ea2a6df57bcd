"""JSON: documents decoded together are those decoded one by one."""

from __future__ import annotations

import random
import struct
import tracemalloc
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.binlog.json.document import to_text
from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.rows.types.json import column as json
from airflow_provider_binlog.rows.types.json import walk as json_walk
from airflow_provider_binlog.rows.values import Bytes, Memory, Values
from tests.support.json_documents import Raw, document, opaque, scalars, strings, text, trees
from tests.unit.rows import wire
from tests.unit.rows.columns import read

COLUMN = wire.column(ColumnType.JSON, b"\x04", collation=None)


@pytest.fixture(autouse=True, scope="module", params=[1, 1 << 30], ids=["places", "levels"])
def _few_documents_together(request: pytest.FixtureRequest) -> Iterator[None]:
    """Take the ways of many documents with few: place by place, or level by level alone."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json, "FEW_BYTES", -1)
        patch.setattr(json, "FEW_DOCUMENTS", request.param)
        yield


def located(documents: Sequence[bytes | None]) -> Values:
    """Return documents with other bytes between them."""
    data, offset, length = b"\xff" * 7, [], []
    for each in documents:
        offset.append(len(data))
        length.append(len(each or b""))
        data += (each or b"") + b"\xff\xee"
    null = np.array([each is None for each in documents], dtype=np.bool_)
    return Values(
        Memory(np.frombuffer(data, dtype=np.uint8), len(data)),
        np.array(offset, dtype=np.int64),
        np.array(length, dtype=np.int64),
        null if null.any() else None,
    )


def convert(*documents: bytes | None) -> list[str | None]:
    array = json.plan(4).convert(located(documents))
    array.validate(full=True)
    texts: list[str | None] = array.to_pylist()
    return texts


def convert_together(*documents: bytes) -> list[str]:
    """Return documents' texts without the plain decoder's help."""
    values = located(documents)
    found: Bytes = json._together(values)
    texts: list[Any] = found.array(pa.string(), None).to_pylist()
    return texts


@given(st.lists(trees, min_size=1, max_size=12), st.booleans(), st.integers(0, 5))
def test_any_documents(documents: list[Any], large: bool, hole: int) -> None:
    encoded = [document(tree, large=large, hole=hole) for tree in documents]
    expected = [text(tree) for tree in documents]

    assert convert_together(*encoded) == expected
    assert convert(*encoded) == expected


def other_scalars(tree: Any, draw: st.DataObject) -> Any:
    """Return a tree of the same containers and keys."""
    if isinstance(tree, dict):
        return {key: other_scalars(each, draw) for key, each in tree.items()}
    if isinstance(tree, list):
        return [other_scalars(each, draw) for each in tree]
    return draw.draw(scalars)


@given(st.lists(st.tuples(trees, st.integers(1, 8)), min_size=1, max_size=3), st.data())
def test_documents_of_few_structures(
    structures: list[tuple[Any, int]], data: st.DataObject
) -> None:
    documents = [other_scalars(tree, data) for tree, count in structures for _ in range(count)]
    documents = data.draw(st.permutations(documents))

    assert convert_together(*map(document, documents)) == [text(tree) for tree in documents]


def test_a_million_bytes_of_one_structure_and_a_few_others() -> None:
    random.seed(3)
    trees = [
        {
            "id": random.choice([number, -number, number << 40, None]),
            "price": number / 4,
            "name": random.choice(["x" * (number % 200), 'quo"ted', "", "é", False]),
            "tags": ["a", number] + [number] * (number % 97 == 0),
            "at": {"x": number, "y": {}, "z": []},
        }
        for number in range(5000)
    ]

    assert convert(*map(document, trees)) == [text(each) for each in trees]


@pytest.mark.parametrize(
    "values",
    [
        [0, 7, -7, 9_999, 10_000, -10_000, 99_999_999, 2**31, 2**63 - 1, -(2**63), 2**64 - 1],
        [0.0, -0.0, 0.25, -1.5, 10.0001, 0.0001, 123456789.1234, 99999999999.9999],
        [0.5, 0.00001, 1e11, 1e15, 1e300, -1e-300, 2.0],
        ["", "é", "x" * 36, "x" * 37, "x" * 38, "x" * 39, "x" * 500],
        ["x", '"', "\\", "x\0", "\x1f" * 7, 'x"' * 18],
        ["x", "\x1f" * 6, "\x1f" * 8, 1, None, True, False, -2.5, 2**64 - 1],
        ["x" * 60, 1, -1, 10**9, None, 'x"' * 30, opaque(15, b"\0" * 99), 0.1, 0.1 + 0.2],
    ],
)
def test_short_and_long_values_beside_each_other(values: list[Any]) -> None:
    alike = ({"a": each, "b": [1, other]} for each in values for other in values)
    encoded = list(map(document, alike))

    assert convert_together(*encoded) == [to_text(each).decode() for each in encoded]


@given(st.lists(st.none() | st.just(b"") | trees.map(document), max_size=8))
def test_nulls_and_documents_of_no_bytes(documents: list[bytes | None]) -> None:
    expected = [None if each is None else to_text(each).decode() for each in documents]

    assert convert(*documents) == expected


def test_both_decoders_read_a_column_of_a_table() -> None:
    tree = {"id": 1, "tags": ["a", None]}

    assert read(
        COLUMN,
        *(
            each if each is None else wire.encode(COLUMN, each)
            for each in (document(tree), None, b"", document(7))
        ),
    ) == [text(tree), None, "null", "7"]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=30))
def test_doubles(numbers: list[float]) -> None:
    encoded = [document(number) for number in numbers]

    assert convert_together(*encoded) == [to_text(each).decode() for each in encoded]


def test_doubles_of_every_size() -> None:
    random.seed(1)
    numbers = [float(f"{random.choice('123456789')}e{power}") for power in range(-323, 308)]
    numbers += [
        random.uniform(0.1, 10) * 10.0**power for power in range(-30, 30) for _ in range(20)
    ]
    numbers += [round(random.uniform(0, 10**power), power % 4) for power in range(17)] * 5
    numbers += [-number for number in numbers]

    assert convert_together(document(numbers)) == [to_text(document(numbers)).decode()]


@given(st.lists(strings | st.integers(0, 700).map(lambda size: "é" * size + "\x01"), max_size=20))
def test_strings(values: list[str]) -> None:
    assert convert_together(document(values), document({"k": values})) == [
        text(values),
        text({"k": values}),
    ]


@given(st.lists(st.dictionaries(strings, st.integers(0, 9), max_size=6), min_size=1, max_size=30))
def test_objects_with_many_sets_of_keys(objects: list[dict[str, int]]) -> None:
    encoded = [document(each) for each in objects]

    assert convert_together(*encoded) == [text(each) for each in objects]


def test_objects_with_some_sets_of_keys() -> None:
    random.seed(2)
    names = ["id", "name", "a longer name", "n" * 70, 'quo"ted', "é", ""]
    objects = [
        {name: random.randint(0, 9) for name in names if random.random() < share}
        for share in (1, 1, 0.9, 0.5)
        for _ in range(50)
    ]
    random.shuffle(objects)

    assert convert_together(*map(document, objects)) == [text(each) for each in objects]


def test_keys_of_one_head_and_other_letters() -> None:
    objects = [{"ab": 1, "cd": 2}, {"ab": 1, "ce": 2}, {"xb": 1, "yd": 2}, {"abcd": 1, "cdef": 2}]

    assert convert_together(*map(document, objects * 9)) == [text(each) for each in objects * 9]


def test_after_members_were_removed_in_place() -> None:
    # MySQL takes the entries out, and leaves the key and the value as they were.
    whole = document({"a": "x", "b": "y", "c": "z"}, hole=2)
    tree = document({"a": "x", "c": "z"}, hole=2)
    assert len(whole) > len(tree)
    wires = [tree, document({"a": 1, "c": 2}), tree]

    assert convert_together(*wires) == [to_text(each).decode() for each in wires]


def test_deep_and_wide_documents() -> None:
    deep: Any = "end"
    for number in range(100):
        deep = [deep] if number % 2 else {"k": deep}
    wide = {f"key {number}": [number, str(number)] for number in range(9000)}
    trees = [deep, wide, [[], {}, [[]], {"": {}}], list(range(-40_000, 40_000, 7)), [None] * 70_000]

    assert convert_together(*map(document, trees)) == [text(each) for each in trees]


def test_values_of_other_types() -> None:
    trees = [opaque(15, b"\0\xff", '"base64:type15:AP8="'), opaque(253, b'"', r'"\""'), "s"]

    assert convert_together(document(trees), document({"k": trees[0]})) == [
        text(trees),
        text({"k": trees[0]}),
    ]


@settings(max_examples=300)
@given(st.lists(trees.map(document), min_size=1, max_size=4), st.data())
def test_broken_documents_fare_as_with_the_plain_decoder(
    documents: list[bytes], data: st.DataObject
) -> None:
    broken = bytearray(documents[0])
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(broken) - 1))
        broken[at] = data.draw(st.integers(0, 255) | st.sampled_from([0, 1, 2, 3, 12, 15, 255]))
    everything = [*documents, bytes(broken)]
    try:
        expected = [to_text(each).decode() for each in everything]
    except FormatError:
        with pytest.raises(FormatError):
            convert_together(*everything)
        with pytest.raises(FormatError):
            convert(*everything)
    else:
        assert convert(*everything) == expected
        assert convert_together(*everything) == expected


@given(st.binary(min_size=1, max_size=40))
def test_any_bytes_fare_as_with_the_plain_decoder(wire: bytes) -> None:
    test_broken = [wire, document({"a": [1]})]
    try:
        expected = [to_text(each).decode() for each in test_broken]
    except FormatError:
        with pytest.raises(FormatError):
            convert_together(*test_broken)
    else:
        assert convert_together(*test_broken) == expected


@pytest.mark.parametrize("size", [1, 100, 5000])
def test_the_size_of_batches_changes_nothing(monkeypatch: pytest.MonkeyPatch, size: int) -> None:
    trees = [{"n": number, "text": "x" * (number % 90)} for number in range(300)]
    monkeypatch.setattr(json, "BATCH_BYTES", size)

    assert convert(None, *map(document, trees)) == [None, *map(text, trees)]


def test_the_error_names_table_and_column() -> None:
    with pytest.raises(FormatError, match=r"literal.*table=shop.orders.*column=@2"):
        read(COLUMN, wire.encode(COLUMN, document(1)), wire.encode(COLUMN, b"\x04\x09"))


def test_a_short_document_cannot_become_a_long_text() -> None:
    # Every level twice the same two bytes further on: 2^60 elements, if it were let.
    wire = b"\x05\x01\x00"
    for _ in range(60):
        inner = wire[1:]
        slot = struct.pack("<BH", wire[0], 10)
        wire = b"\x02" + struct.pack("<HH", 2, 10 + len(inner)) + slot * 2 + inner

    with pytest.raises(FormatError, match="overlap"):
        convert(wire)
    with pytest.raises(FormatError):
        convert_together(wire)


@pytest.mark.parametrize(
    ("tree", "count"),
    [
        ([None] * 5000, 400),
        ([[]] * 3000, 200),
        ({"a": [1.5] * 1200}, 500),
        (["x"] * 3000, 300),
        (["x" * 4000] * 1000, 1),
    ],
)
def test_memory_is_bounded(tree: Any, count: int) -> None:
    wire = document(tree)
    values = located([wire] * count)
    tracemalloc.start()
    try:
        found = json.plan(4).convert(values)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(found) == count
    assert peak < 100_000_000 + 3 * found.nbytes


def test_a_document_of_many_values_is_left_to_the_plain_decoder(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(json_walk, "VALUES_MAX", 1000)
    trees = [[1] * 999, [1] * 1000, [[1] * 600, [1] * 600], [[]] * 1000]
    encoded = [document(tree) for tree in trees]

    assert [convert(each) for each in encoded] == [[text(tree)] for tree in trees]
    assert convert_together(encoded[0]) == [text(trees[0])]
    for each in encoded[1:]:
        with pytest.raises(FormatError, match="more values"):
            convert_together(each)


def test_a_large_document_is_left_to_the_plain_decoder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json, "LARGE_BYTES", 1000)
    monkeypatch.setattr(json, "render", None)
    tree = [Raw(0x0C, b"\x05hello", '"hello"')] * 200

    assert convert(document(tree)) == [text(tree)]
