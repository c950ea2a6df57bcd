"""What is decoded from the log equals what SELECT returns: the server is the oracle."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.decoded import decode
from tests.support.logged import decoded, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from datetime import date, datetime

    from tests.fixtures.mysql import Database

pytestmark = pytest.mark.server

# ------------------------------------------------------------------- what SELECT returns


@dataclass(frozen=True)
class Type:
    """A column: its type in SQL, values to insert, and how to compare it.

    Attributes:
        sql: As in CREATE TABLE.
        values: SQL expressions.
        select: What to select; `{0}` is the column.
        show: The decoded value as `select` gives it.
    """

    sql: str
    values: Sequence[str]
    select: str = "{0}"
    show: Callable[[Any], Any] = lambda value: value


def _text(value: Any) -> str:
    return str(value)


def _hex(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else value).hex().upper()


def _clock(fsp: int) -> Callable[[int], str]:
    def show(micros: int) -> str:
        seconds, rest = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        sign = "-" if micros < 0 else ""
        return sign + clock + (f".{rest:06}"[: fsp + 1] if fsp else "")

    return show


def _moment(fsp: int) -> Callable[[datetime], str]:
    def show(value: datetime) -> str:
        whole = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
        return whole + (f".{value.microsecond:06}"[: fsp + 1] if fsp else "")

    return show


def _day(value: date) -> str:
    return f"{value.year:04}-{value:%m-%d}"


def _integers(name: str, bits: int) -> list[Type]:
    top = 2 ** (bits - 1)
    signed = [str(-top), str(top - 1), "0", "-1"]
    return [
        Type(name, signed),
        Type(f"{name} unsigned", [str(2 * top - 1), str(top), "0", "1"], show=int),
    ]


def _temporals(fsp: int) -> list[Type]:
    fraction = "." + "987654"[:fsp] if fsp else ""
    char = "CAST({0} AS CHAR)"
    moments = ["1000-01-01 00:00:00", "9999-12-31 23:59:59", "2024-02-29 12:34:56"]
    return [
        Type(
            f"datetime({fsp})",
            [f"'{moment}{fraction}'" for moment in moments] + ["'0000-00-00 00:00:00'"],
            # What no lake type holds is NULL.
            f"IF({{0}} = 0, NULL, {char})",
            _moment(fsp),
        ),
        Type(
            f"timestamp({fsp}) NULL",
            [f"'{moment}{fraction}'" for moment in ("1970-01-01 00:00:01", "2038-01-19 03:14:07")]
            + ["'0000-00-00 00:00:00'"],
            f"IF({{0}} = 0, NULL, {char})",
            _moment(fsp),
        ),
        Type(
            f"time({fsp})",
            [f"'{sign}{time}{fraction}'" for sign in ("", "-") for time in ("00:00:00", "12:34:56")]
            + ["'838:59:59'", "'-838:59:59'", f"'-00:00:01{fraction}'"],
            char,
            _clock(fsp),
        ),
    ]


def _decimals(precision: int, scale: int) -> Type:
    whole = "9" * (precision - scale) or "0"
    most = whole + ("." + "9" * scale if scale else "")
    least = f"0.{'0' * (scale - 1)}1" if scale else "1"
    values = [most, f"-{most}", "0", least, f"-{least}"]
    return Type(
        f"decimal({precision},{scale})",
        values,
        "CAST({0} AS CHAR)",
        lambda value: value if isinstance(value, str) else f"{value:f}",
    )


_LONG = "REPEAT('ab', 200)"
TYPES: list[Type] = [
    *_integers("tinyint", 8),
    *_integers("smallint", 16),
    *_integers("mediumint", 24),
    *_integers("int", 32),
    *_integers("bigint", 64),
    # SELECT rounds a FLOAT to six digits for print: as a double it is exact.
    Type("float", ["0", "1.5", "-3.4e38", "3.14159274", "1.2e-38", "0.1"], "{0} + 0e0", float),
    Type("double", ["0", "0.1", "-1.7976931348623157e308", "2.2e-308", "123456789.987654321"]),
    *(_decimals(*each) for each in [(1, 0), (5, 5), (9, 0), (10, 2), (18, 9), (19, 4), (20, 0)]),
    *(_decimals(*each) for each in [(30, 30), (38, 0), (38, 30), (39, 0), (65, 0), (65, 30)]),
    Type("bit(1)", ["b'0'", "b'1'"], "{0} + 0", int),
    Type("bit(10)", ["b'1000000001'", "b'11'", "0"], "{0} + 0", lambda v: int.from_bytes(v, "big")),
    Type("bit(64)", ["~0", "1", "0"], "{0} + 0", lambda v: int.from_bytes(v, "big")),
    Type("year", ["0", "1901", "2155"], "{0} + 0"),
    Type(
        "date",
        [
            *["'1000-01-01'", "'9999-12-31'", "'2024-02-29'", "'1969-12-31'"],
            *["'0000-00-00'", "'2024-00-00'", "'2023-02-31'"],
        ],
        "IF(CAST({0} AS CHAR) IN ('0000-00-00', '2024-00-00', '2023-02-31'), NULL,"
        " CAST({0} AS CHAR))",
        _day,
    ),
    *(each for fsp in range(7) for each in _temporals(fsp)),
    Type("char(10)", ["'a '", "''", "'é日本😀'", "'  x'"], "HEX({0})", _hex),
    Type("char(255)", ["'a'", "REPEAT('é', 255)"], "HEX({0})", _hex),
    Type("varchar(40)", ["'a '", "''", "'é日本😀'", "'line\\nbreak\\0'"], "HEX({0})", _hex),
    Type("varchar(300)", ["'a'", "REPEAT('日', 300)"], "HEX({0})", _hex),
    *(
        Type(
            f"{size}text",
            ["'a '", "''", "'é日本😀'", *([_LONG] if size != "tiny" else [])],
            "HEX({0})",
            _hex,
        )
        for size in ("tiny", "", "medium", "long")
    ),
    *(
        Type(
            f"{size}blob",
            ["''", "x'00ff00'", *([_LONG] if size != "tiny" else [])],
            "HEX({0})",
            _hex,
        )
        for size in ("tiny", "", "medium", "long")
    ),
    Type("binary(4)", ["x'01020000'", "''", "x'ffffffff'", "x'00'"], "HEX({0})", _hex),
    Type("binary(255)", ["x'01020000'", "''", "REPEAT('z', 255)"], "HEX({0})", _hex),
    Type("varbinary(40)", ["x'01020000'", "''", "x'ff'"], "HEX({0})", _hex),
    Type("varbinary(300)", ["REPEAT(x'00', 300)", "''"], "HEX({0})", _hex),
    Type("enum('new','grün','')", ["'new'", "'grün'", "''", "'none of them'"], "HEX({0})", _hex),
    Type("set('a','b','grün')", ["''", "'a'", "'grün,a'", "7"], "HEX({0})", _hex),
    Type(f"set({','.join(repr(f'l{n}') for n in range(64))})", ["~0", "1", "0"], "HEX({0})", _hex),
    Type(f"enum({','.join(repr(f'l{n}') for n in range(300))})", ["300", "1"], "HEX({0})", _hex),
    *(
        Type(
            f"{each} CHARACTER SET latin1", ["'ü'", "'b'"], "HEX(CONVERT({0} USING utf8mb4))", _hex
        )
        for each in ("enum('ü','b')", "set('ü','b')", "char(3)", "text")
    ),
]


@pytest.fixture
def oracle(database: Database) -> Database:
    """A database with one table that has a column of every type, and a row of every edge value."""
    columns = [f"c{number} {each.sql}" for number, each in enumerate(TYPES)]
    # Where a type has no more values its column is NULL; in the last row they all are.
    rows = range(max(len(each.values) for each in TYPES) + 1)
    values = [
        ", ".join(each.values[row] if row < len(each.values) else "NULL" for each in TYPES)
        for row in rows
    ]
    statements = [f"INSERT INTO every VALUES ({row}, {values[row]})" for row in rows]
    database.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        f"CREATE TABLE every (id INT PRIMARY KEY, {', '.join(columns)}) ROW_FORMAT=DYNAMIC",
        *statements,
    )
    return database


def select(database: Database) -> dict[int, tuple[Any, ...]]:
    """Return the table as SELECT returns it, by id."""
    expressions = [each.select.format(f"c{number}") for number, each in enumerate(TYPES)]
    rows = database.query(f"SELECT id, {', '.join(expressions)} FROM every")
    return {row[0]: row[1:] for row in rows}


def shown(values: Sequence[Any]) -> tuple[Any, ...]:
    """Return decoded values as SELECT returns them, without the id."""
    return tuple(
        None if value is None else each.show(value)
        for each, value in zip(TYPES, values[1:], strict=True)
    )


def assert_equal(found: tuple[Any, ...], expected: tuple[Any, ...]) -> None:
    for each, one, other in zip(TYPES, found, expected, strict=True):
        assert one == (int(other) if isinstance(other, Decimal) else other), each.sql


def test_every_type_equals_select(oracle: Database) -> None:
    before = select(oracle)
    oracle.execute(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES'",
        "UPDATE every SET id = id + 100",
        "DELETE FROM every WHERE id > 102",
    )
    after = select(oracle)
    logged = read_log(oracle)["every"]

    rows = decoded(logged)
    assert logged.layout.named
    assert logged.layout.key == (0,)
    assert [change for change, _ in rows].count(0) == len(before)
    for change, values in rows:
        number = values[0]
        expected = before[number] if change in (0, 1) else before[number - 100]
        assert_equal(shown(values), expected)
    left = {values[0]: shown(values) for change, values in rows if change == 2}
    for change, values in rows:
        if change == 3:
            del left[values[0]]
    assert left.keys() == after.keys()
    for number, values in left.items():
        assert_equal(values, after[number])


def test_what_became_null_is_counted(oracle: Database) -> None:
    logged = read_log(oracle)["every"]
    counts = decode(logged.layout, logged.rows_events()).unrepresentable

    zero_dates = {
        f"c{number}": 3 if each.sql == "date" else 1
        for number, each in enumerate(TYPES)
        if each.sql.startswith(("date", "timestamp"))
    }
    assert counts == zero_dates


def test_the_types_are_named_as_the_server_names_them(oracle: Database) -> None:
    named = oracle.query(
        "SELECT COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS"
        " WHERE TABLE_SCHEMA = DATABASE() AND TABLE_NAME = 'every' ORDER BY ORDINAL_POSITION"
    )
    layout = read_log(oracle)["every"].layout

    for column, (name, sql_type) in zip(layout.columns, named, strict=True):
        assert column.name == name
        # MariaDB and older MySQL say a width that the log does not hold: int(11).
        width_left_out = sql_type.split("(")[0] + sql_type.rpartition(")")[2]
        assert column.mysql_type in (sql_type, width_left_out)


TEXTS = ["plain", "grün", "Ωμέγα", "Привіт", "日本", "中文", "한국어", "ไทย", "שלום"]
SAMPLES = [
    "plain",
    "",
    "grün é ñ ß",
    "Ωμέγα",
    "Привіт",
    "שלום",
    "日本語テスト",
    "中文測試简体",
    "한국어",
    "ไทย",
    "\\\\ ~",
]


def test_every_character_set_equals_select(database: Database) -> None:
    sets = database.query(
        "SELECT CHARACTER_SET_NAME, MAXLEN FROM information_schema.CHARACTER_SETS"
    )
    sets = [(name, size) for name, size in sets if name != "binary"]
    statements = ["SET SESSION sql_mode = ''"]
    for name, size in sets:
        known = database.query(
            " UNION ALL ".join(
                f"SELECT '{text}' FROM DUAL"
                f" WHERE CONVERT(CONVERT('{text}' USING {name}) USING utf8mb4) = '{text}'"
                for text in TEXTS
            )
        )
        values = ", ".join(f"'{text}'" for (text,) in known)
        statements.append(
            f"CREATE TABLE t_{name} (id INT AUTO_INCREMENT PRIMARY KEY, a VARCHAR(50), b CHAR(20),"
            f" c TEXT, d ENUM({values}), e SET({values})) CHARACTER SET {name}"
        )
        statements.append(
            f"INSERT INTO t_{name} (d, e) VALUES (1, 1), ({len(known)}, {2 ** len(known) - 1})"
        )
        texts = ", ".join(f"('{text}', '{text}', '{text}')" for text in SAMPLES)
        # What a character set does not have becomes a question mark.
        statements.append(f"INSERT INTO t_{name} (a, b, c) VALUES {texts}")
        if size == 1:
            every = (f"_{name} x'{byte:02x}'" for byte in range(128 if name == "ascii" else 256))
            values = ", ".join(f"({each}, {each}, {each})" for each in every)
            statements.append(f"INSERT INTO t_{name} (a, b, c) VALUES {values}")
    database.execute(*statements)

    log = read_log(database)
    for name, _size in sets:
        expected = database.query(
            "SELECT id, HEX(CONVERT(a USING utf8mb4)), HEX(CONVERT(b USING utf8mb4)),"
            " HEX(CONVERT(c USING utf8mb4)), HEX(CONVERT(d USING utf8mb4)),"
            f" HEX(CONVERT(e USING utf8mb4)) FROM t_{name} ORDER BY id"
        )
        found = [
            (values[0], *(None if text is None else _hex(text) for text in values[1:]))
            for _, values in decoded(log[f"t_{name}"])
        ]
        assert found == expected, name
