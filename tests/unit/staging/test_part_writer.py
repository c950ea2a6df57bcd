"""Parts: the same bytes for the same rows, and every value back as it was."""

from __future__ import annotations

import datetime as dt
import functools
import hashlib
import itertools
import random
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.changes import CHANGE_COLUMNS
from airflow_provider_binlog.errors import StoreUnavailableError
from airflow_provider_binlog.schema import Field, Schema
from airflow_provider_binlog.staging import part_writer
from airflow_provider_binlog.staging.part_writer import encode_part, write_part
from tests.support.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_binlog.staging.object_store import ObjectStore

NAIVE = functools.partial(dt.datetime, tzinfo=None)
COLUMNS: list[tuple[str, pa.DataType, list[Any]]] = [
    # MySQL type, Arrow type, values
    ("bigint unsigned", pa.decimal128(20, 0), [Decimal(2**64 - 1), Decimal(0), None]),
    ("int", pa.int32(), [-(2**31), 2**31 - 1, None]),
    ("bigint", pa.int64(), [-(2**63), 2**63 - 1, None]),
    ("decimal(38,9)", pa.decimal128(38, 9), [Decimal("9" * 29 + ".000000001"), Decimal(0), None]),
    ("float", pa.float32(), [1.5, -0.0, None]),
    ("double", pa.float64(), [1.7e308, -4.9e-324, None]),
    ("bit(1)", pa.bool_(), [True, False, None]),
    ("blob", pa.binary(), [b"\x00\xff", b"", None]),
    ("date", pa.date32(), [dt.date(1000, 1, 1), dt.date(9999, 12, 31), None]),
    ("datetime(6)", pa.timestamp("us"), [NAIVE(1000, 1, 1), NAIVE(9999, 12, 31, 23), None]),
    (
        "timestamp(6)",
        pa.timestamp("us", tz="UTC"),
        [dt.datetime(2038, 1, 19, 3, 14, 7, 999_999, tzinfo=dt.UTC), None, None],
    ),
    ("time(6)", pa.int64(), [-3_020_399_000_000, 3_020_399_999_999, None]),
    ("varchar(20)", pa.string(), ["ü表😀", "", None]),
    ("enum('new','paid')", pa.string(), ["new", "paid", None]),
    ("set('a','b')", pa.string(), ["a,b", "", None]),
]
SCHEMA = Schema(
    1,
    tuple(
        Field(number, f"c {number}.{mysql_type}", mysql_type, str(arrow_type), nullable=True)
        for number, (mysql_type, arrow_type, _) in enumerate(COLUMNS)
    ),
    (1, 12),
)
ENUM, SET = "c 13.enum('new','paid')", "c 14.set('a','b')"


def table(repeats: int = 1) -> pa.Table:
    """Return three change rows of every type, or several times that."""
    rows = 3 * repeats
    names = [column.name for column in SCHEMA.fields] + list(CHANGE_COLUMNS)
    arrays = [pa.array(values * repeats, arrow_type) for _, arrow_type, values in COLUMNS]
    commit = dt.datetime(2026, 11, 21, tzinfo=dt.UTC)
    arrays += [
        pa.array(["insert"] * rows),
        pa.array([commit] * rows, pa.timestamp("us", tz="UTC")),
        pa.array(["fabf987e-e54b-11f1-bec6-02fc00000001:1"] * rows),
        pa.array(["binlog.000001"] * rows),
        pa.array(range(rows), pa.int64()),
        pa.array(range(rows), pa.int64()),
        pa.array([0] * rows, pa.int32()),
    ]
    return pa.table(arrays, names=names)


def test_every_value_comes_back() -> None:
    back = pq.read_table(pa.BufferReader(encode_part(table(), SCHEMA)))

    assert back.equals(table())


def test_what_is_returned_is_what_is_stored(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")
    size, digest = write_part(store, "shop/t/1.parquet", table(), SCHEMA)

    data = store.read("shop/t/1.parquet")
    assert size == len(data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert data == encode_part(table(), SCHEMA)


@given(st.lists(st.integers(0, 60), max_size=5).map(sorted))
def test_chunks_do_not_change_the_bytes(cuts: list[int]) -> None:
    whole = table(20)
    edges = [0, *cuts, whole.num_rows]
    chunks = [whole.slice(a, b - a) for a, b in itertools.pairwise(edges)]

    assert encode_part(pa.concat_tables(chunks), SCHEMA) == encode_part(whole, SCHEMA)


def size_of(part: pa.Table) -> int:
    return part_writer._form_of(part, SCHEMA).size(part)


def test_chunks_and_slices_do_not_make_a_part_large() -> None:
    # Values of about as many bytes as are small; what else stands beside them is no part of it.
    rows = next(n for n in range(10, 2000) if size_of(table(n)) > 16_300)
    whole = table(rows - 1)
    apart = pa.concat_tables([whole.slice(each, 1) for each in range(whole.num_rows)])
    arrays = [pa.array([None, *each.to_pylist()], each.type).slice(1) for each in whole.columns]

    assert apart.nbytes > part_writer._SMALL_BYTES > size_of(whole)
    assert encode_part(apart, SCHEMA) == encode_part(whole, SCHEMA)
    assert encode_part(pa.table(arrays, whole.column_names), SCHEMA) == encode_part(whole, SCHEMA)


def test_metadata_and_a_longer_buffer_do_not_change_the_bytes() -> None:
    view = table(3).replace_schema_metadata({"made": "by another"}).slice(3, 3)

    assert encode_part(view, SCHEMA) == encode_part(table(3).take([3, 4, 5]), SCHEMA)


def columns_of(part: pa.Table) -> dict[str, Any]:
    """Return what the file of a part says of its columns."""
    group = pq.ParquetFile(pa.BufferReader(encode_part(part, SCHEMA))).metadata.row_group(0)
    return {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}


def test_encodings_and_statistics_are_chosen_by_column() -> None:
    columns = columns_of(table())

    of_few_values = {name for name, column in columns.items() if column.has_dictionary_page}
    assert of_few_values == {ENUM, SET, "_change_type", "_gtid", "_file", "_image"}
    with_range = {name for name, column in columns.items() if column.is_stats_set}
    assert with_range == {*SCHEMA.key_names, "_commit_ts", "_row"}
    rising = {name for name, each in columns.items() if "DELTA_BINARY_PACKED" in each.encodings}
    assert rising >= {"c 1.int", "c 9.datetime(6)", "_commit_ts", "_pos", "_row"}


@pytest.mark.parametrize(("repeats", "codec"), [(1, "SNAPPY"), (200, "ZSTD")])
def test_a_small_part_is_not_compressed_with_zstd(repeats: int, codec: str) -> None:
    columns = columns_of(table(repeats))

    assert {column.compression for column in columns.values()} == {codec}


NOISE = random.Random(5).randbytes(3 << 20)


def large(*values: bytes | None) -> pa.Table:
    """Return a table with a column of large values, each in a chunk of its own."""
    rows = len(values)
    blobs = pa.chunked_array([pa.array([each], pa.binary()) for each in values])
    return table(rows).slice(0, rows).set_column(7, "c 7.blob", blobs)


@pytest.mark.parametrize(
    ("values", "codec"),
    [
        ([NOISE], "UNCOMPRESSED"),
        ([NOISE, None, NOISE[: 2 << 20]], "UNCOMPRESSED"),
        ([NOISE, b"a" * (3 << 20)], "ZSTD"),
        ([NOISE, *[None] * 9], "ZSTD"),  # not large on average
    ],
)
def test_large_values_are_compressed_where_that_makes_them_smaller(
    values: list[bytes | None], codec: str
) -> None:
    part = large(*values)

    assert columns_of(part)["c 7.blob"].compression == codec
    assert encode_part(part, SCHEMA) == encode_part(part.combine_chunks(), SCHEMA)
    assert pq.read_table(pa.BufferReader(encode_part(part, SCHEMA))).equals(part)


@pytest.mark.parametrize("scheme", ["file", "memory"])
def test_a_part_of_large_rows_is_the_same_file(
    scheme: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, part = open_store(f"{scheme}://{tmp_path}"), large(NOISE, NOISE)
    monkeypatch.setattr(part_writer, "_LARGE_PART_BYTES", 0)
    assert part_writer.is_large(part)

    size, digest = write_part(store, "shop/t/1.parquet", part, SCHEMA)

    assert store.read("shop/t/1.parquet") == encode_part(part, SCHEMA)
    assert (size, digest) == (store.size("shop/t/1.parquet"), sha256_of(store))


def sha256_of(store: ObjectStore) -> str:
    return hashlib.sha256(store.read("shop/t/1.parquet")).hexdigest()


def test_a_part_without_rows_is_a_part() -> None:
    assert pq.read_table(pa.BufferReader(encode_part(table().slice(0, 0), SCHEMA))).num_rows == 0


def test_a_failed_write_is_raised() -> None:
    class Down:
        def write(self, key: str, data: bytes) -> None:
            raise StoreUnavailableError("the store failed", key=key, size=len(data))

    with pytest.raises(StoreUnavailableError):
        write_part(Down(), "key", table(), SCHEMA)  # type: ignore[arg-type]
