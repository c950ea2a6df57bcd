"""JSON of a real server: its documents as text are what SELECT prints."""

from __future__ import annotations

import json
import random
import struct
from contextlib import closing
from math import isfinite
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.binlog.json.document import encode
from tests.reference import values as reference_values
from tests.reference.json import parse
from tests.reference.rows import decode_plainly
from tests.support.json_documents import EXAMPLE, EXAMPLE_WIRE
from tests.support.logged import decoded, read_log

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from tests.fixtures.mysql import Database
    from tests.services.servers import Server
    from tests.support.logged import Logged

pytestmark = pytest.mark.server


@pytest.fixture
def database(mysql97: Server, create_database: Callable[[Server], Database]) -> Database:
    return create_database(mysql97)


# ------------------------------------------------------------------- documents from text


def some_text(chance: random.Random) -> str:
    size = chance.choice([0, 1, 3, 8, 8, 40, 200])
    return "".join(chance.choice('abc"\\/\n\t\b\f\r\x00\x1f\x7fé漢😀 ') for _ in range(size))


def some_double(chance: random.Random) -> float:
    match chance.randrange(5):
        case 0:
            (number,) = struct.unpack("<d", chance.randbytes(8))
            return float(number) if isfinite(number) else -0.0
        case 1:
            return chance.uniform(-1, 1) * 10.0 ** chance.randint(-20, 20)
        case 2:
            return round(chance.uniform(0, 10 ** chance.randint(0, 17)), chance.randint(0, 5))
        case 3:
            return float(chance.randint(-(10**18), 10**18))
        case _:
            return 10.0 ** chance.randint(-30, 30)


def some_tree(chance: random.Random, depth: int = 0) -> Any:
    kind = chance.random()
    if depth < 4 and kind < 0.25:
        count = chance.randint(0, 5)
        return {some_text(chance)[:9]: some_tree(chance, depth + 1) for _ in range(count)}
    if depth < 4 and kind < 0.45:
        return [some_tree(chance, depth + 1) for _ in range(chance.randint(0, 5))]
    scalars: list[Callable[[], Any]] = [
        lambda: chance.choice([None, True, False]),
        lambda: chance.randint(-40_000, 70_000),
        lambda: chance.randint(-(2**33), 2**33),
        lambda: chance.randint(-(2**63), 2**64 - 1),
        lambda: some_double(chance),
        lambda: some_text(chance),
    ]
    return chance.choice(scalars)()


def random_documents() -> Iterator[str]:
    chance = random.Random(4)
    for _ in range(3000):
        yield json.dumps(some_tree(chance))
    for _ in range(400):
        yield json.dumps([some_double(chance) for _ in range(50)])
    yield json.dumps(list(range(-1000, 70_000)))
    yield json.dumps({f"key {number}": number for number in range(9000)})
    yield json.dumps({"text": "x" * 70_000, "list": [1, 2, {"b": -5, "c": 70_000}], "n": -70_000})
    yield "[" * 100 + "]" * 100
    yield '{"a": ' * 100 + "1" + "}" * 100
    yield from ['""', '"text"', "1", "-1.5", "null", "true", "{}", "[]", '{"": ""}', "1e400"[:3]]


def insert(database: Database, documents: Sequence[str]) -> None:
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.executemany("INSERT INTO t (doc) VALUES (%s)", [(each,) for each in documents])


def test_random_documents(database: Database) -> None:
    documents = list(random_documents())
    database.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, doc JSON)")
    insert(database, documents)

    found = [values for _, values in decoded(read_log(database)["t"])]

    assert len(found) == len(documents)
    assert found == database.query("SELECT id, doc FROM t ORDER BY id")


def documents_of(logged: Logged, monkeypatch: pytest.MonkeyPatch) -> list[bytes]:
    """Return the documents that the log holds, undecoded."""
    wires: list[bytes] = []

    def keep(wire: bytes) -> bytes:
        wires.append(wire)
        return b""

    monkeypatch.setattr(reference_values, "to_text", keep)
    decode_plainly(logged.layout, logged.rows_events())
    return wires


def test_documents_are_written_as_the_server_does(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    database.execute("CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, doc JSON)")
    insert(database, [*[*random_documents()][::5], json.dumps(EXAMPLE)])
    logged = read_log(database)["t"]
    wires = documents_of(logged, monkeypatch)

    assert len(wires) > 600
    assert [encode(parse(wire)) for wire in wires] == wires
    assert wires[-1] == EXAMPLE_WIRE


# ------------------------------------------------------------------- values of SQL types

COLUMNS = {
    "tinyint": ["-128", "127"],
    "bigint unsigned": ["18446744073709551615"],
    "decimal(65,30)": ["-12345678901234567890123456789012345.000000000000000000000000000001", "0"],
    "decimal(5,5)": ["0.00001", "-0.99999"],
    "decimal(38,0)": ["-99999999999999999999999999999999999999"],
    "float": ["1.1", "-3.4e38"],
    "double": ["1e15", "-1.7976931348623157e308"],
    "year": ["2155"],
    "date": ["'2024-02-29'", "'9999-12-31'", "'0000-00-00'", "'2024-00-00'"],
    "datetime(6)": ["'1000-01-01 00:00:00.000001'", "'9999-12-31 23:59:59.999999'"],
    "datetime": ["'0000-00-00 00:00:00'"],
    "timestamp(3) NULL": ["'2038-01-19 03:14:07.999'", "'1970-01-01 00:00:01'"],
    "time(6)": ["'-838:59:58.999999'", "'838:59:59'", "'-00:00:00.000001'", "'00:00:00'"],
    "bit(1)": ["b'1'"],
    "bit(64)": ["~0", "5"],
    "char(5)": ["'a\"é'"],
    "varchar(20) CHARACTER SET latin1": ["'é'"],
    "text": [r"'\n\\'"],
    "enum('a','b')": ["'b'"],
    "set('a','b')": ["'a,b'"],
    "binary(4)": ["x'00ff'"],
    "varbinary(300)": ["x'00ff'", "''", "REPEAT('x', 57)", "REPEAT('x', 58)", "REPEAT('x', 300)"],
    "tinyblob": ["x'00'"],
    "blob": ["REPEAT(x'00ff', 200)"],
    "longblob": ["x'ff'"],
    "json": ["'[1]'"],
}
_TEXTS = ("char", "varchar", "text", "enum", "set")
"""Text is cast by being read as JSON."""


def test_values_of_other_types(database: Database) -> None:
    columns = {f"c{number}": each for number, each in enumerate(COLUMNS)}
    database.execute(
        "CREATE TABLE plain (id INT AUTO_INCREMENT PRIMARY KEY, "
        + ", ".join(f"{name} {kind}" for name, kind in columns.items())
        + ")",
        "CREATE TABLE t (id INT AUTO_INCREMENT PRIMARY KEY, doc JSON)",
    )
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("SET sql_mode = ''")
        for name, kind in columns.items():
            for value in COLUMNS[kind]:
                cursor.execute(f"INSERT INTO plain ({name}) VALUES ({value})")
        pairs = ", ".join(f"'{name}', {name}" for name in columns)
        arrays = ", ".join(columns)
        cursor.execute(f"INSERT INTO t (doc) SELECT JSON_OBJECT({pairs}) FROM plain")
        cursor.execute(f"INSERT INTO t (doc) SELECT JSON_ARRAY({arrays}) FROM plain")
        cursor.execute(
            "INSERT INTO t (doc) VALUES (JSON_ARRAY(x'00ff', b'1010', CAST('abc' AS BINARY), 1.50,"
            " ST_GeomFromText('POINT(1 2)'), CAST(-0.00 AS DECIMAL(5, 2)), (1 = 1), -0e0))"
        )
        for name, kind in columns.items():
            if not kind.startswith(_TEXTS):
                cursor.execute(f"INSERT INTO t (doc) SELECT CAST({name} AS JSON) FROM plain")

    found = [values for _, values in decoded(read_log(database)["t"])]

    assert found == database.query("SELECT id, doc FROM t ORDER BY id")
    assert sum("base64:type" in str(doc) for _, doc in found) > 12


def test_null_into_a_column_that_may_not_hold_it(database: Database) -> None:
    database.execute(
        "CREATE TABLE t (id INT PRIMARY KEY, doc JSON NOT NULL, other JSON)",
        "INSERT IGNORE INTO t VALUES (1, NULL, NULL), (2, '1', 'null')",
    )

    found = [values for _, values in decoded(read_log(database)["t"])]

    assert found == [(1, "null", None), (2, "1", "null")]
    assert found == database.query("SELECT * FROM t")


# ------------------------------------------------------------------- updates

_PATHS = [
    *["$.n", "$.a[0]", "$.a[1]", "$.a[last]", "$.a[last-1]", "$.a[3].b", "$.a[20]", "$.o.x"],
    *['$.o."x y"', '$.o."q\\\\"\\\\n"', '$.""', "$.o", "$.new", "$.a", "$.text", "$.é", "$.n[0]"],
    *["$.n[1]", "$.a[3][0].b", '$."😀"'],
]
_VALUES = [
    *["1", "-70000", "'short'", "1.5", "NULL", "JSON_ARRAY()", "JSON_OBJECT('b', 2)", "x'00ff'"],
    *["REPEAT('long', 60)", "CAST('2024-02-29' AS DATE)", "JSON_ARRAY(1, JSON_OBJECT())", "id"],
    *["CAST(1.50 AS DECIMAL(5,2))", "'q\"\\\\'", "4294967296"],
]
_DOCUMENT = """JSON_OBJECT('n', id, 'a', JSON_ARRAY(1, 'two', 3.5, JSON_OBJECT('b', 'x')), '', 'e',
    'o', JSON_OBJECT('x', 7, 'x y', NULL, 'q"\\n', true), 'text', REPEAT('x', 20 * id), 'é', 'é')"""


def some_update(chance: random.Random) -> str:
    function = chance.choice(["JSON_SET", "JSON_SET", "JSON_REPLACE", "JSON_REMOVE"])
    arguments = ["doc"]
    for path in chance.sample(_PATHS, chance.choice([1, 1, 2, 3])):
        arguments.append(f"'{path}'")
        if function != "JSON_REMOVE":
            arguments.append(chance.choice(_VALUES))
    return f"UPDATE t SET round = round + 1, doc = {function}({', '.join(arguments)})"


@pytest.mark.parametrize("options", ["", "PARTIAL_JSON"])
def test_updates_in_place(
    database: Database, options: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    chance = random.Random(9)
    database.execute("CREATE TABLE t (id INT PRIMARY KEY, round INT, doc JSON)")
    expected: list[tuple[Any, ...]] = []
    with closing(database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute(f"SET binlog_row_value_options = '{options}'")
        for number in range(300):
            if number % 12 == 0:
                cursor.execute("DELETE FROM t")
                for row in range(1, 9):
                    cursor.execute(
                        f"INSERT INTO t SELECT id, 0, {_DOCUMENT} FROM (SELECT {row} id) i"
                    )
            cursor.execute(some_update(chance))
            cursor.execute("SELECT * FROM t ORDER BY id")
            expected += cursor.fetchall()
    logged = read_log(database)["t"]

    found = [values for change, values in decoded(logged) if change == 2]

    assert found == expected
    partial = [kind for kind, _ in logged.events if kind == EventType.PARTIAL_UPDATE_ROWS]
    assert bool(partial) == bool(options)
    if not options:
        wires = documents_of(logged, monkeypatch)
        assert any(encode(parse(wire)) != wire for wire in wires), "no update left a hole"
