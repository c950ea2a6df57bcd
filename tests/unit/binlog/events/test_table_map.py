"""TableMap: the columns of a table, with whatever metadata its server logged."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import ColumnType, mysql_type
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.errors import (
    BinlogError,
    FormatError,
    TruncatedError,
)
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.table_map_builder import optional_metadata, optional_metadata_fields, table_map
from tests.support.wire import lenenc_bytes
from tests.unit.binlog.strategies import table_maps

if TYPE_CHECKING:
    from random import Random

MYSQL = builder.parsed_format()
MARIADB = builder.parsed_format(builder.MARIADB)

# As MySQL 9.7.4 and MariaDB 10.11.18 log it under binlog_row_metadata=FULL:
# CREATE TABLE t (id bigint unsigned PRIMARY KEY, a varchar(40), b enum('a','ü''') CHARSET latin1,
#   s set('x','y'), d decimal(10,2), g point, f float unsigned, n char(7) CHARSET ucs2,
#   v varbinary(9), tx mediumtext, bi bit(9), ti time(3), dt datetime, ts timestamp(6) NULL,
#   j json, y year)
FROM_MYSQL = bytes.fromhex(
    "460100000000 0100 0473686f7000 017400 10 080ffefef6ff04fe0ffc10131211f50d"
    "15 a000f701f8010a020404fe0e09000301010300 0604 feff"
    "0101b0 0308fcff00233ffcff00 070101"
    "0426 026964016101620173016401670166016e01760274780262690274690264740274 73016a0179"
    "0b0408fcff00 05050201780179 0606020161 02fc27 080100 0c02ffff"
)
FROM_MARIADB = bytes.fromhex(
    "170000000000 0100 0473686f7000 017400 10 080ffefef6ff04fe0ffc10131211fc0d"
    "15 2800f701f8010a020404fe0e09000301010300 0604 feff"
    "0101b0 0306083f233f082e 070101"
    "0426 026964016101620173016401670166016e01760274780262690274690264740274 73016a0179"
    "0a0108 05050201780179 0606020161 02fc27 080100"
)
TYPES = [
    "bigint unsigned",
    "varchar(40)",
    "enum('a','ü''')",
    "set('x','y')",
    "decimal(10,2)",
    "point",
    "float unsigned",
    "char(7)",
    "varbinary(9)",
    "mediumtext",
    "bit(9)",
    "time(3)",
    "datetime",
    "timestamp(6)",
    "json",
    "year",
]


def column(code: int, metadata: bytes = b"", **more: object) -> TableMapColumn:
    return replace(TableMapColumn(code, metadata, code, nullable=True), **more)  # type: ignore[arg-type]


def table(*columns: TableMapColumn, key: tuple[tuple[int, int], ...] | None = None) -> TableMap:
    return TableMap(5, 1, "shop", "t", columns, key)


def test_of_mysql() -> None:
    parsed = TableMap.parse(FROM_MYSQL, MYSQL)

    assert (parsed.table_id, parsed.database, parsed.table) == (0x146, "shop", "t")
    assert [mysql_type(each) for each in parsed.columns] == TYPES
    assert " ".join(str(each.name) for each in parsed.columns) == (
        "id a b s d g f n v tx bi ti dt ts j y"
    )
    assert [each.nullable for each in parsed.columns] == [False] + [True] * 15
    assert parsed.columns[15].unsigned is True  # YEAR is counted, and unsigned
    assert parsed.columns[2].enum_values == (b"a", b"\xfc'")
    assert parsed.columns[5].geometry_type == 1
    assert parsed.columns[14].collation is None  # JSON is not counted
    assert all(each.visible for each in parsed.columns)
    assert parsed.primary_key == ((0, 0),)
    assert parsed.has_names


def test_of_mariadb() -> None:
    parsed = TableMap.parse(FROM_MARIADB, MARIADB)

    assert [mysql_type(each) for each in parsed.columns] == [
        "longtext" if kind == "json" else kind for kind in TYPES
    ]
    assert parsed.columns[5].collation == 63  # GEOMETRY is counted
    assert parsed.columns[14].collation == 46
    assert parsed.columns[0].visible is None


@pytest.mark.parametrize(
    ("flavor", "names", "unsigned", "hidden"),
    [
        (Flavor.MARIADB, ["id", "DB_ROW_HASH_1", "DB_ROW_HASH_2"], True, 2),
        (Flavor.MARIADB, ["DB_ROW_HASH_1", "id", "DB_ROW_HASH_2"], True, 1),
        (Flavor.MARIADB, ["id", "DB_ROW_HASH_1", "DB_ROW_HASH_"], True, 0),
        (Flavor.MARIADB, ["id", "DB_ROW_HASH_1", "DB_ROW_HASH_2"], False, 0),
        (Flavor.MYSQL, ["id", "DB_ROW_HASH_1", "DB_ROW_HASH_2"], True, 0),
    ],
)
def test_the_hashes_of_unique_keys_are_hidden(
    flavor: Flavor, names: list[str], unsigned: bool, hidden: int
) -> None:
    columns = [column(ColumnType.LONGLONG, name=name, unsigned=unsigned) for name in names]
    described = table_map(table(*columns, key=((0, 0),)), flavor)
    parsed = TableMap.parse(described, MYSQL if flavor is Flavor.MYSQL else MARIADB)

    assert [each.name for each in parsed.columns] == names[: len(names) - hidden]
    assert (parsed.hidden, parsed.has_names) == (hidden, True)


def test_cut_inside_the_fixed_fields_is_truncated() -> None:
    body = table_map(table(column(ColumnType.LONG), column(ColumnType.VARCHAR, b"\x50\0")))

    for size in range(len(body)):
        with pytest.raises(TruncatedError):
            TableMap.parse(body[:size], MYSQL)


def test_without_optional_metadata_nothing_is_guessed() -> None:
    parsed = TableMap.parse(table_map(table(column(ColumnType.LONGLONG))), MARIADB)

    assert parsed == table(column(ColumnType.LONGLONG))
    assert not parsed.has_names
    assert parsed.columns[0].unsigned is None


@given(table_maps(Flavor.MYSQL))
def test_reads_what_was_written_by_mysql(expected: TableMap) -> None:
    assert TableMap.parse(table_map(expected, Flavor.MYSQL), MYSQL) == expected


@given(table_maps(Flavor.MARIADB))
def test_reads_what_was_written_by_mariadb(expected: TableMap) -> None:
    assert TableMap.parse(table_map(expected, Flavor.MARIADB), MARIADB) == expected


@given(table_maps(Flavor.MYSQL), st.randoms(use_true_random=False))
def test_optional_metadata_comes_in_any_order_with_unknown_fields(
    expected: TableMap, random: Random
) -> None:
    fields = optional_metadata_fields(expected, Flavor.MYSQL)
    everything = [bytes((code,)) + lenenc_bytes(value) for code, value in fields.items()]
    everything += [b"\xc8\x02??", b"\xc9\x00"]
    random.shuffle(everything)
    body = table_map(expected, Flavor.MYSQL)
    body = body.removesuffix(optional_metadata(expected, Flavor.MYSQL))

    assert TableMap.parse(body + b"".join(everything), MYSQL) == expected


def test_a_default_character_set_has_exceptions_by_index_among_text_columns() -> None:
    text = column(ColumnType.VARCHAR, b"\x50\0")
    body = table_map(table(text, column(ColumnType.LONG), text, text))

    # Default 255, and collation 8 for the third text column.
    parsed = TableMap.parse(body + b"\x02\x05\xfc\xff\x00\x02\x08", MYSQL)

    assert [each.collation for each in parsed.columns] == [255, None, 255, 8]


def test_vector_is_counted_as_text_by_mysql() -> None:
    body = table_map(
        table(column(ColumnType.VECTOR, b"\x04"), column(ColumnType.VARCHAR, b"\x50\0"))
    )

    parsed = TableMap.parse(body + b"\x03\x02\x3f\x08\x0d\x01\x03", MYSQL)

    assert [each.collation for each in parsed.columns] == [63, 8]
    assert parsed.columns[0].vector_dimension == 3


def test_a_key_of_prefixes_keeps_its_order() -> None:
    columns = [column(ColumnType.LONG)] * 3
    body = table_map(table(*columns))

    parsed = TableMap.parse(body + b"\x09\x06\x01\x00\x00\x07\x02\x05", MYSQL)

    assert parsed.primary_key == ((1, 0), (0, 7), (2, 5))


@pytest.mark.parametrize(
    ("field", "error"),
    [
        (b"\x03\x02\x08\x08", "more columns than there are"),
        (b"\x03\x00", "ends early"),
        (b"\x02\x03\x08\x01\x3f", "column that does not exist"),
        (b"\x08\x01\x02", "key column that does not exist"),
        (b"\x06\x01\x05", "more columns than there are"),
        (b"\x04\x06\x01a\x01b\x01c", "more columns than there are"),
        (b"\x04\x04\x01a\x01\xff", "not UTF-8"),
    ],
)
def test_metadata_that_does_not_fit_the_columns_is_refused(field: bytes, error: str) -> None:
    body = table_map(table(column(ColumnType.LONG), column(ColumnType.VARCHAR, b"\x50\0")))

    with pytest.raises(FormatError, match=error):
        TableMap.parse(body + field, MYSQL)


def test_more_enum_values_than_bytes_are_refused_at_once() -> None:
    enum = TableMapColumn(ColumnType.STRING, b"\xf7\x01", ColumnType.ENUM, nullable=True)
    body = table_map(table(enum))

    with pytest.raises(FormatError, match="count=16777215"):
        TableMap.parse(body + b"\x06\x04\xfd\xff\xff\xff", MYSQL)


def test_metadata_of_types_must_be_used_up() -> None:
    body = bytearray(table_map(table(column(ColumnType.VARCHAR, b"\x50\0"))))
    body[body.index(b"\x01\x0f\x02\x50") + 1] = ColumnType.BLOB

    with pytest.raises(FormatError, match="after that of the last column"):
        TableMap.parse(bytes(body), MYSQL)


def test_of_a_table_with_an_unknown_type_the_name_is_read() -> None:
    parsed = TableMap.parse(table_map(table(column(99))), MYSQL)

    assert (parsed.database, parsed.columns) == ("shop", ())
    assert "type=UNKNOWN_99" in parsed.refused


@given(st.binary(max_size=120))
def test_any_bytes_give_a_value_or_a_documented_error(body: bytes) -> None:
    with contextlib.suppress(BinlogError):
        TableMap.parse(body, MYSQL)


@given(st.binary(max_size=60))
def test_any_optional_metadata_gives_a_value_or_a_documented_error(metadata: bytes) -> None:
    with contextlib.suppress(BinlogError):
        TableMap.parse(FROM_MYSQL[:83] + metadata, MYSQL)
