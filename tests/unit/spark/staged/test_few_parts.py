"""Few parts read by Arrow: any names, the last change of each key, and damage."""

from __future__ import annotations

import random
import sys
import zoneinfo
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_binlog.changes import CHANGE_TYPE, ROW
from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.spark.staged.few_parts import (
    COUNT,
    MANIFEST,
    read_parts,
    take_last,
)
from tests.unit.spark.memory_files import Files


def _write(
    files: Files,
    sequence: int,
    columns: dict[str, Any],
    *,
    rows: int | None = None,
    dictionary: bool = True,
) -> Part:
    """Write a part of a manifest, and return what this says of it."""
    columns = {CHANGE_TYPE: pa.array(["insert"] * len(columns[ROW]), pa.string()), **columns}
    path = f"shop/orders/{sequence:016d}-{len(files.data):06d}-9f86d081884c.parquet"
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table(columns), sink, compression="zstd", use_dictionary=dictionary)
    files.data[path] = sink.getvalue().to_pybytes()
    rows = len(columns[ROW]) if rows is None else rows
    return Part(path, 1, rows, len(files.data[path]), "", 0, 0, 0, 0, {"insert": rows})


def _read(files: Files, parts: list[Part], **columns: str) -> pa.Table:
    stored = {CHANGE_TYPE: "string", ROW: "bigint", **columns}
    table = read_parts(files, parts, stored, memory=1 << 20)
    assert table is not None
    return table


def test_columns_of_any_name_are_read_with_their_manifest() -> None:
    names = ["a.b", "from", "_sequence", "Manifest", "a", "`"]
    files = Files()
    parts = [
        _write(files, number, {name: pa.array([number]) for name in ["unread", ROW, *names]})
        for number in (7, 5)
    ]

    table = _read(files, parts, **dict.fromkeys(names, "bigint"))

    assert table.column_names == [CHANGE_TYPE, ROW, *names, MANIFEST]
    assert table[MANIFEST].to_pylist() == [7, 5]
    assert all(table[name].to_pylist() == [7, 5] for name in names)


def test_the_last_row_of_each_key_is_that_which_the_log_has_last() -> None:
    chance = random.Random(20261129)
    files = Files()
    points = [(sequence, row) for sequence in (9, 10, 11) for row in range(0, 900, 7)]
    rows = [
        (*point, chance.choice([None, 0.0, -0.0, 1.5]), chance.choice([None, "a", "A", "a "]), n)
        for n, point in enumerate(points)
    ]
    # The parts of a manifest may interleave, and none of them need be in order.
    chance.shuffle(rows)
    parts = []
    for sequence in (11, 9, 10):
        own = [row for row in rows if row[0] == sequence]
        for half in (own[::2], own[1::2]):
            _, numbers, keys, texts, values = zip(*half, strict=True)
            columns = {ROW: numbers, "key": keys, "text": texts, "value": values}
            parts.append(_write(files, sequence, {n: pa.array(c) for n, c in columns.items()}))

    table = _read(files, parts, key="double", text="string", value="bigint")
    found = take_last(table, ["key", "text"])

    expected: dict[Any, list[int]] = {}
    for _, _, key, text, value in sorted(rows, key=lambda row: row[:2]):
        expected.setdefault((key, text), []).append(value)
    assert len(expected) == 12
    assert sorted(zip(found["value"].to_pylist(), found[COUNT].to_pylist(), strict=True)) == sorted(
        (values[-1], len(values)) for values in expected.values()
    )


def test_a_key_may_be_a_moment_where_there_is_no_data_of_time_zones(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("tzdata", "pytz"):
        monkeypatch.setitem(sys.modules, name, None)
    zoneinfo.reset_tzpath(to=[])
    zoneinfo.ZoneInfo.clear_cache()
    try:
        files = Files()
        at = pa.array([7, 8, 7, None, None], pa.timestamp("us", "UTC"))
        part = _write(files, 1, {ROW: pa.array(range(5)), "at": at})

        found = take_last(_read(files, [part], at="timestamp"), ["at"])
    finally:
        zoneinfo.reset_tzpath()

    assert {*found[ROW].to_pylist()} == {1, 2, 4}


def test_a_missing_part_is_named() -> None:
    files = Files()
    part = _write(files, 1, {ROW: pa.array([1])})
    files.delete(part.path)

    with pytest.raises(StagingError, match="missing") as raised:
        _read(files, [part])

    assert part.path in str(raised.value)


@pytest.mark.parametrize(
    ("columns", "cause"),
    [
        ({ROW: [1]}, "name"),
        ({ROW: [1], "name": [1.5]}, "double"),
        ({ROW: [1], "name": [1], CHANGE_TYPE: ["merge"]}, "not change types"),
    ],
    ids=["no column", "another type", "no change"],
)
def test_a_part_that_is_not_as_its_manifest_says_is_named(
    columns: dict[str, Any], cause: str
) -> None:
    files = Files()
    part = _write(files, 1, {name: pa.array(values) for name, values in columns.items()})

    with pytest.raises(StagingError, match="cannot be read") as raised:
        _read(files, [part], name="bigint")

    assert part.path in str(raised.value)
    assert cause in str(raised.value)


@pytest.mark.parametrize("rows", [0, 2])
def test_a_part_of_fewer_or_more_rows_is_named(rows: int) -> None:
    files = Files()
    numbers = pa.array(range(rows), pa.int64())
    part = _write(files, 1, {ROW: numbers}, rows=1)

    with pytest.raises(StagingError, match="do not hold the rows"):
        _read(files, [part])


def test_a_part_cut_anywhere_is_named() -> None:
    files = Files()
    part = _write(files, 1, {ROW: pa.array(range(50)), "text": pa.array(["text"] * 50)})
    data = files.data[part.path]

    for size in range(len(data)):
        files.data[part.path] = data[:size]
        with pytest.raises(StagingError, match="cannot be read"):
            _read(files, [part], text="string")


def test_a_flipped_bit_is_another_value_or_named() -> None:
    chance, files = random.Random(20261129), Files()
    texts = pa.array([f"text {number} \N{SNOWMAN}" for number in range(50)])
    part = _write(files, 1, {ROW: pa.array(range(50)), "text": texts})
    data = files.data[part.path]
    named = 0

    for _ in range(3_000):
        damaged = bytearray(data)
        damaged[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
        files.data[part.path] = bytes(damaged)
        try:
            take_last(_read(files, [part], text="string"), ["text"])
        except StagingError:
            named += 1

    assert named > 300


def test_small_parts_of_large_values_are_not_kept() -> None:
    files = Files()
    texts = pa.array(["x" * 20_000] * 40)
    parts = [
        _write(files, number, {ROW: pa.array(range(40)), "text": texts}) for number in range(1, 4)
    ]
    columns = {CHANGE_TYPE: "string", ROW: "bigint", "text": "string"}

    assert all(part.bytes < 2_000 for part in parts)
    assert read_parts(files, parts[:1], columns, memory=1_000_000) is not None
    assert read_parts(files, parts, columns, memory=1_000_000) is None
    assert read_parts(files, parts[:1], columns, memory=100_000) is None


def test_a_small_part_of_large_values_is_not_decoded_first(monkeypatch: pytest.MonkeyPatch) -> None:
    files, decoded = Files(), list[object]()
    columns = {ROW: pa.array(range(30)), "blob": pa.array([bytes(1 << 20)] * 30)}
    part = _write(files, 1, columns, dictionary=False)
    monkeypatch.setattr(pq.ParquetFile, "iter_batches", lambda *given, **_: decoded.extend(given))
    types = {CHANGE_TYPE: "string", ROW: "bigint", "blob": "binary"}

    assert part.bytes < 100_000
    assert read_parts(files, [part], types, memory=16 << 20) is None
    assert not decoded
