"""Names, keys, enum values and signedness of the past: the same without metadata as with it.

Every history is made twice on a server, in two databases: under `binlog_row_metadata=FULL`, and
under what servers have by default. What is staged must be the same.
"""

from __future__ import annotations

import io
import threading
from contextlib import closing, suppress
from dataclasses import dataclass, field, replace
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pymysql
import pytest
from pymysql.cursors import Cursor

from airflow_provider_binlog.capture import TableFilter, extract
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ServerSetupError
from airflow_provider_binlog.position import Flavor, Position
from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.transport.server.information_schema import read_server_tables
from airflow_provider_binlog.transport.server.queries import identify, log_end
from airflow_provider_binlog.transport.stream.live import ServerBlockStream
from tests.fixtures.mysql import connect, execute, query
from tests.services.servers import Account, Server
from tests.support.requests import a_request
from tests.support.staged import held_by, named_in
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.transport.server.information_schema import ServerTables

pytestmark = pytest.mark.server

_numbers = count(1)
SPARSE = {"mysql97": "MINIMAL", "mariadb1011": "NO_LOG", "mariadb118": "NO_LOG"}
SERVERS = list(SPARSE)
MARIADB = [name for name in SERVERS if name.startswith("mariadb")]
MYSQL = ["mysql97"]


@pytest.fixture(scope="module")
def start_server(run_folder: Path) -> Iterator[Callable[[str], Server]]:
    """Start each kind of server once: its settings change, so that it cannot be shared."""
    started: dict[str, Server] = {}

    def start(name: str) -> Server:
        if name not in started:
            server = Server.create(name, run_folder / f"{name}-past")
            server.start()
            execute(server, "CREATE USER reader IDENTIFIED BY ''")
            started[name] = server
        return started[name]

    yield start
    for server in started.values():
        server.stop()


@dataclass(frozen=True)
class Past:
    """A history: what happens before the range, in it, and after it before it is read."""

    title: str
    during: list[str]
    before: list[str] = field(default_factory=list)
    later: list[str] = field(default_factory=list)
    on: list[str] = field(default_factory=lambda: SERVERS)


@dataclass(frozen=True)
class Logged:
    """A range of a server's log, about one database."""

    server: Server
    database: str
    start: Position
    stop: Position


def happen(server: Server, metadata: str, *statements: str, database: str | None = None) -> Logged:
    """Execute statements, in a new database if need be; their range of the log is returned."""
    prelude = [f"SET GLOBAL binlog_row_metadata = {metadata}"]
    if database is None:
        database = f"past_{next(_numbers)}"
        # The beginning of the file is read for transactions in doubt: it is kept short.
        prelude += ["FLUSH BINARY LOGS", f"CREATE DATABASE {database} CHARACTER SET utf8mb4"]
    with closing(connect(server, ssl_disabled=True)) as connection:
        cursor = connection.cursor()
        for statement in (*prelude, f"USE {database}"):
            cursor.execute(statement)
        start = log_end(connection)
        for statement in statements:
            cursor.execute(statement)
        return Logged(server, database, start, log_end(connection))


@dataclass(frozen=True)
class Staging:
    """Where ranges are staged, one after the other."""

    store: ObjectStore = field(default_factory=lambda: open_store(f"memory://past{next(_numbers)}"))

    def stage(
        self,
        logged: Logged,
        *,
        sequence: int = 1,
        account: Server | Account | None = None,
        tables: str = "*",
        exclude: tuple[str, ...] = (),
    ) -> Manifest:
        server, asked = logged.server, account or logged.server

        def read_tables(wanted: Callable[[str, str], bool]) -> ServerTables:
            with closing(connect(asked, ssl_disabled=True)) as connection:
                return read_server_tables(connection, wanted)

        flavor = Flavor.MARIADB if server.name.startswith("mariadb") else Flavor.MYSQL
        source = ServerBlockStream(lambda: connect(server, ssl_disabled=True), flavor=flavor)
        with closing(connect(server, ssl_disabled=True)) as connection:
            identity = identify(connection)
        with closing(source):
            (manifest,) = extract(
                a_request(
                    logged.start,
                    logged.stop,
                    identity=identity,
                    sequence=sequence,
                    tables=TableFilter([f"{logged.database}.{tables}"], exclude),
                    source_name="past",
                    before_images=BeforeImages.ALL,
                    read_server_tables=read_tables,
                    wants_defaults=True,
                ),
                source,
                self.store,
            ).manifests
        return manifest

    def changes(self, manifest: Manifest) -> list[tuple[Any, ...]]:
        """Return all changes in order: table, columns, and the row without its offsets."""
        found = []
        for table in manifest.tables:
            for part in table.parts:
                rows = pq.read_table(io.BytesIO(self.store.read(f"past/{part.path}"))).to_pylist()
                for row in rows:
                    offsets = row.pop("_row"), row.pop("_pos"), row.pop("_gtid"), row.pop("_file")
                    del row["_commit_ts"]
                    row["_image"] = held_by(table, table.schema(part.schema), row["_image"])
                    columns = [
                        (each.name, each.mysql_type, each.charset, each.nullable)
                        for each in table.schema(part.schema).fields
                    ]
                    found.append((offsets[0], named_in(part), columns, row))
        return [each[1:] for each in sorted(found, key=lambda each: each[0])]


def staged_content(staging: Staging, manifest: Manifest) -> tuple[Any, ...]:
    """Return what a manifest holds, without what differs between two runs of the same history."""
    statements = [
        (each.type, each.text, [type(action) for action in each.actions])
        for each in manifest.statements
    ]
    return staging.changes(manifest), statements


ROWS = "INSERT INTO t VALUES (1, 'a', 'b', 10, 20), (2, 'c', 'd', 30, 40)"
T = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(20), b VARCHAR(20), x INT, y INT)"
EVERY = (
    "CREATE TABLE t (id BIGINT UNSIGNED NOT NULL, big BIGINT UNSIGNED, small TINYINT,"
    " d DECIMAL(9,2) UNSIGNED, f FLOAT UNSIGNED, l1 VARCHAR(20) CHARACTER SET latin1,"
    " l2 TEXT CHARACTER SET koi8r, c CHAR(9) CHARACTER SET utf8mb4, b BINARY(5), vb VARBINARY(9),"
    r" bl BLOB, e ENUM('x','it''s','a\\b','ü') CHARACTER SET latin1,"
    " s SET('p','q','日') CHARACTER SET ujis, dt DATETIME(3), ts TIMESTAMP(6) NULL, tm TIME,"
    " ye YEAR, bi BIT(9), p POINT, g INT AS (small + 1) STORED, PRIMARY KEY (c(3), id))"
)
EVERY_ROW = (
    "INSERT INTO t (id, big, small, d, f, l1, l2, c, b, vb, bl, e, s, dt, ts, tm, ye, bi) VALUES"
    " (18446744073709551615, 9223372036854775808, -1, 1.5, 2.5, 'grün', 'привет', 'schlüssel', 'b',"
    " 'vb', 'bl', 'ü', 'p,日', '2026-01-02 03:04:05.678', '2026-01-02 03:04:05.678901',"
    " '-12:00:00', 2026, b'101')"
)


def ghost(alteration: str) -> list[str]:
    """Return what gh-ost does to `t`."""
    return [
        "CREATE TABLE _t_gho LIKE t",
        f"ALTER TABLE _t_gho {alteration}",
        "UPDATE t SET a = 'e' WHERE id = 1",
        "INSERT IGNORE INTO _t_gho (id, a, x, y) SELECT id, a, x, y FROM t LOCK IN SHARE MODE",
        "UPDATE t SET x = x + 1",
        "RENAME TABLE t TO _t_del, _t_gho TO t",
        "INSERT INTO t (id, z, a, x, y) VALUES (3, 7, 'f', 50, 60)",
        "DROP TABLE _t_del",
        "UPDATE t SET z = 8 WHERE id = 3",
    ]


ADDED = "ADD COLUMN z INT NOT NULL DEFAULT 5 AFTER id"
REPLACED = f"{ADDED}, DROP COLUMN b"
WITH_ENUM = (
    "CREATE TABLE t (id INT PRIMARY KEY, e ENUM('a', 'b') CHARSET latin1,"
    " s SET('x') COLLATE latin1_bin)"
)
NEW_VALUES = (
    "ALTER TABLE t MODIFY e ENUM('b', 'a', 'c''d') CHARACTER SET latin1,"
    " MODIFY s SET('x', 'y') CHARACTER SET latin1"
)
UNIQUE = (
    "CREATE TABLE t (a INT, b INT NOT NULL, c INT NOT NULL, UNIQUE (a), UNIQUE z (c), UNIQUE y (b))"
)
ALIKE = (
    "CREATE TABLE t (id INT PRIMARY KEY, u UUID, i INET6, b BINARY(16), b4 BINARY(4), j JSON,"
    " x VARCHAR(9))"
)
ALIKE_ROW = (
    "INSERT INTO t VALUES (1, '123e4567-e89b-12d3-a456-426655440000', '::1', 'b', 'c',"
    " '{\"a\": 1}', 'xx')"
)
NEW = (
    "CREATE TABLE _t_new (id INT NOT NULL, a VARCHAR(20), b VARCHAR(20), x INT, y INT,"
    " PRIMARY KEY (id))"
)
TRIGGER = (
    "CREATE TRIGGER pt_ins AFTER INSERT ON t FOR EACH ROW REPLACE INTO _t_new (id, a, b, y, x)"
    " VALUES (NEW.id, NEW.a, NEW.b, NEW.x, NEW.y)"
)
COPY = (
    "INSERT LOW_PRIORITY IGNORE INTO _t_new (id, a, b, y, x) SELECT id, a, b, x, y FROM t"
    " LOCK IN SHARE MODE"
)
PT_OSC = [
    NEW,
    "ALTER TABLE _t_new RENAME COLUMN x TO y, RENAME COLUMN y TO x",
    TRIGGER,
    "INSERT INTO t VALUES (3, 'e', 'f', 50, 60)",
    COPY,
    "RENAME TABLE t TO _t_old, _t_new TO t",
    "DROP TABLE IF EXISTS _t_old",
    "DROP TRIGGER IF EXISTS pt_ins",
    "UPDATE t SET x = 99 WHERE id = 3",
]

HISTORIES = [
    Past("nothing altered", [EVERY, EVERY_ROW, "UPDATE t SET small = 5", "DELETE FROM t"]),
    Past("altered before", [ROWS], [T, "ALTER TABLE t RENAME COLUMN x TO z"]),
    Past(
        "columns of one type change names after it",
        [T, ROWS],
        later=["ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a"],
    ),
    Past(
        "columns of one type change names between",
        [T, ROWS, "ALTER TABLE t CHANGE x y INT, CHANGE y x INT", "UPDATE t SET x = 5"],
    ),
    Past(
        "columns of one type change order between",
        [T, ROWS, "ALTER TABLE t MODIFY y INT AFTER a", "UPDATE t SET x = 5"],
        # A moved column may have been at any position: the CREATE TABLE says at which.
    ),
    Past(
        "columns are added between, before and after",
        [
            ROWS,
            "ALTER TABLE t ADD m BIGINT UNSIGNED FIRST, ADD n ENUM('k', 'l') AFTER a",
            "UPDATE t SET n = 'l', m = 18446744073709551615",
            "ALTER TABLE t ADD q INT",
            "UPDATE t SET q = 5",
        ],
        [T],
        ["ALTER TABLE t ADD r INT AFTER id, ADD COLUMN w TEXT CHARACTER SET latin1 FIRST"],
    ),
    Past(
        "a column is dropped",
        [T, ROWS, "ALTER TABLE t DROP COLUMN b", "UPDATE t SET a = 'z'"],
        on=MYSQL,
    ),
    Past(
        "enum values are added at the end",
        [
            WITH_ENUM,
            "INSERT INTO t VALUES (1, 'b', 'x')",
            NEW_VALUES,
            "UPDATE t SET e = 'c''d', s = 'x,y'",
            "ALTER TABLE t MODIFY e ENUM('b', 'c''d', 'a', 'z')",
            "UPDATE t SET e = 'z'",
        ],
        on=MYSQL,
    ),
    Past(
        "the key becomes another",
        [
            T,
            ROWS,
            "ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (y, id), MODIFY a VARCHAR(30)",
            "UPDATE t SET y = y + 1",
        ],
        on=MYSQL,
    ),
    Past(
        "unique keys in place of primary ones",
        [
            UNIQUE,
            "CREATE TABLE u (a VARCHAR(20) NOT NULL, b INT, UNIQUE (a(5)))",
            "INSERT INTO t VALUES (1, 2, 3)",
            "INSERT INTO u VALUES ('a', 2)",
        ],
    ),
    Past("renamed after it", [T, ROWS], later=["RENAME TABLE t TO u", "ALTER TABLE u ADD z INT"]),
    Past(
        "names change in a circle",
        [
            T,
            "CREATE TABLE u (k INT PRIMARY KEY, v INT)",
            ROWS,
            "INSERT INTO u VALUES (1, 2)",
            "RENAME TABLE t TO w, u TO t, w TO u",
            "INSERT INTO t VALUES (3, 4)",
            "UPDATE u SET a = 'z'",
        ],
    ),
    Past("gh-ost", [T, ROWS, *ghost(ADDED)]),
    Past("gh-ost on a table from before", [ROWS, *ghost(ADDED)], [T]),
    Past("gh-ost drops a column", [T, ROWS, *ghost(REPLACED)], on=MYSQL),
    Past("pt-online-schema-change", [T, ROWS, *PT_OSC], on=MYSQL),
    Past(
        "made and dropped",
        [T, ROWS, "DROP TABLE t", "CREATE TABLE t (q INT PRIMARY KEY)", "INSERT INTO t VALUES (7)"],
        later=["DROP TABLE t"],
        on=MYSQL,
    ),
    Past(
        "another character set",
        [T, ROWS, "ALTER TABLE t CONVERT TO CHARACTER SET latin1", "UPDATE t SET a = 'ü'"],
        on=MYSQL,
    ),
    Past(
        "invisible, and a key that the server generated",
        [
            "SET SESSION sql_generate_invisible_primary_key = ON",
            "CREATE TABLE t (a INT, b INT INVISIBLE)",
            "INSERT INTO t (a, b) VALUES (1, 2)",
            "ALTER TABLE t ADD c INT FIRST",
            "UPDATE t SET a = 5",
        ],
        on=MYSQL,
    ),
    Past(
        "types that look like others",
        [
            ALIKE,
            ALIKE_ROW,
            "ALTER TABLE t ADD COLUMN IF NOT EXISTS v UUID AFTER id, CHANGE b c BINARY(16)",
            "UPDATE t SET v = '00000000-0000-0000-0000-000000000001'",
        ],
        later=["ALTER TABLE t RENAME COLUMN u TO v2, ADD w INET6 FIRST"],
        on=["mariadb1011"],
    ),
    Past(
        "altered in two phases",
        [
            "SET SESSION binlog_alter_two_phase = ON",
            *(T, ROWS),
            "ALTER TABLE t RENAME COLUMN a TO b, RENAME COLUMN b TO a, ALGORITHM = COPY",
            "UPDATE t SET a = 'z'",
        ],
        on=["mariadb118"],
    ),
]


def cases() -> list[Any]:
    return [pytest.param(name, p, id=f"{name}: {p.title}") for p in HISTORIES for name in p.on]


@pytest.mark.parametrize(("name", "past"), cases())
def test_it_is_the_same_as_under_full(
    start_server: Callable[[str], Server], name: str, past: Past
) -> None:
    server, found = start_server(name), []
    for metadata in ("FULL", SPARSE[name]):
        database = happen(server, metadata, *past.before).database
        logged = happen(server, metadata, *past.during, database=database)
        happen(server, metadata, *past.later, database=database)
        staging = Staging()
        found.append(staged_content(staging, staging.stage(logged)))

    full, sparse = found
    assert sparse == full
    assert full[0]


LATER = [
    ([T, ROWS], ["UPDATE t SET x = 7", *ghost(REPLACED)], []),
    ([T, ROWS], [*ghost(ADDED)], ["DROP TABLE t"]),
    ([T, ROWS], ["UPDATE t SET x = 7", *PT_OSC], []),
    ([T, ROWS], ["UPDATE t SET x = 7", "ALTER TABLE t DROP b, DROP x", "DELETE FROM t"], []),
    ([T, ROWS], ["UPDATE t SET x = 7"], ["DROP TABLE t"]),
    ([T, ROWS], ["UPDATE t SET x = 7"], ["ALTER TABLE t MODIFY y INT FIRST, DROP a"]),
    (
        [T.replace("x INT", "x ENUM('a', 'b')"), "INSERT INTO t VALUES (1, 'a', 'b', 'b', 5)"],
        ["UPDATE t SET x = 'a'", "ALTER TABLE t MODIFY x ENUM('b', 'a')", "DELETE FROM t"],
        [],
    ),
]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_the_rest_is_known_from_what_was_staged_last(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    for before, during, later in LATER:
        found = []
        for metadata in ("FULL", SPARSE[name]):
            first = happen(server, metadata, *before)
            staging = Staging()
            staging.stage(first)
            second = happen(server, metadata, *during, database=first.database)
            # MariaDB may have written something of its own between the two.
            second = replace(second, start=first.stop)
            happen(server, metadata, *later, database=first.database)
            found.append(staged_content(staging, staging.stage(second, sequence=2)))

        full, sparse = found
        assert sparse == full
        assert full[0]


@dataclass(frozen=True)
class Doubt:
    """A history that is not clear, though rows were inserted into the table in its midst."""

    later: list[str]
    reason: str
    on: list[str] = field(default_factory=lambda: ["mysql97", "mariadb118"])
    table: str = T
    rows: str = ROWS


DOUBTS = [
    Doubt(["DROP TABLE t"], r"it was dropped at binlog.0\d+:\d+"),
    Doubt(["DROP TABLE t", "CREATE TABLE t (a INT)"], "it was dropped at"),
    Doubt(["RENAME TABLE t TO u", "DROP TABLE u"], "it was dropped at"),
    Doubt(PT_OSC, "it was dropped at"),
    Doubt(["ALTER TABLE t DROP x"], "2 orders of its columns fit", MYSQL),
    Doubt(["ALTER TABLE t MODIFY y INT FIRST"], "2 orders of its columns fit", MYSQL),
    Doubt(
        ["ALTER TABLE t DROP b"],
        "may have changed its key",
        MYSQL,
        "CREATE TABLE t (a INT NOT NULL, b BIGINT NOT NULL, PRIMARY KEY (a, b))",
        "INSERT INTO t VALUES (1, 2)",
    ),
    Doubt(
        ["ALTER TABLE t MODIFY e ENUM('b', 'a')"],
        "nothing says the character set of column e",
        MYSQL,
        "CREATE TABLE t (id BIGINT PRIMARY KEY, e ENUM('a', 'b'))",
        "INSERT INTO t VALUES (1, 'a')",
    ),
    Doubt(["ALTER TABLE t MODIFY x BIGINT"], "the signedness of column x", ["mariadb118"]),
    Doubt(
        ["ALTER TABLE t ADD SYSTEM VERSIONING", "ALTER TABLE t DROP SYSTEM VERSIONING"],
        "what the statement at .* changed is not clear",
        ["mariadb118"],
    ),
]


@pytest.mark.parametrize("doubt", DOUBTS, ids=lambda doubt: doubt.later[-1])
def test_what_cannot_be_determined_is_refused(
    start_server: Callable[[str], Server], doubt: Doubt
) -> None:
    for name in doubt.on:
        server = start_server(name)
        database = happen(server, SPARSE[name], doubt.table).database
        logged = happen(server, SPARSE[name], doubt.rows, database=database)
        happen(server, SPARSE[name], *doubt.later, database=database)

        with pytest.raises(ServerSetupError, match=doubt.reason) as raised:
            Staging().stage(logged)

        context: dict[str, Any] = raised.value.context
        assert context["table"] == f"{database}.t"
        assert context["file"] == logged.start.file
        assert logged.start.offset < context["offset"] < logged.stop.offset
        assert "binlog_row_metadata=FULL" in str(raised.value)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_tables_that_are_not_captured_are_followed(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    database = happen(server, SPARSE[name], T, "CREATE TABLE other (a INT)").database
    logged = happen(server, SPARSE[name], ROWS, *ghost(ADDED), database=database)
    happen(server, SPARSE[name], "RENAME TABLE t TO away", "DROP TABLE other", database=database)
    staging = Staging()

    manifest = staging.stage(logged, tables="t")

    # The table that leaves the captured name is another one than that which takes it.
    left, came = sorted(manifest.tables, key=lambda each: each.table)
    assert [each.schemas[0].fields[1].name for each in (left, came)] == ["a", "z"]
    (rename,) = manifest.statements
    assert [(type(each), each.table) for each in rename.actions] == [
        (RenameTable, left.id),
        (RenameTable, came.id),
    ]
    assert (left.table, came.table, came.created) == ("_t_del", "t", None)


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_the_account_must_be_let_in_on_the_tables(
    start_server: Callable[[str], Server], name: str
) -> None:
    server = start_server(name)
    database = happen(server, SPARSE[name], T).database
    logged = happen(server, SPARSE[name], ROWS, database=database)
    reader = Account(server.host, server.port, "reader")
    execute(server, "GRANT REPLICATION CLIENT ON *.* TO reader")

    with pytest.raises(ServerSetupError, match="the account has no SELECT on it"):
        Staging().stage(logged, account=reader)

    # It sees that another table is there, and has no SELECT on it.
    execute(
        server,
        f"CREATE TABLE {logged.database}.hidden (id INT PRIMARY KEY)",
        f"GRANT INSERT ON {logged.database}.hidden TO reader",
        f"GRANT SELECT ON {logged.database}.t TO reader",
    )
    assert Staging().stage(logged, account=reader).rows == 2


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_nobody_alters_a_table_while_information_schema_is_read(
    start_server: Callable[[str], Server], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start_server(name)
    logged = happen(server, SPARSE[name], T)
    reading, altering = threading.Event(), threading.Event()

    def alter() -> None:
        reading.wait()
        with suppress(pymysql.MySQLError):
            execute(
                server,
                "SET lock_wait_timeout = 1",
                "ALTER TABLE t ADD z INT",
                database=logged.database,
            )
        altering.set()

    class Slow(Cursor):
        """Stops between the tables and the columns, until somebody has tried to alter one."""

        def execute(self, query: str, args: Any = None) -> int:
            if "information_schema.COLUMNS" in query:
                reading.set()
                assert altering.wait(20)
            return super().execute(query, args)

    thread = threading.Thread(target=alter)
    thread.start()
    monkeypatch.setattr("airflow_provider_binlog.transport.server.result_sets.Cursor", Slow)
    with closing(connect(server)) as connection:
        found = read_server_tables(connection, lambda database, _: database == logged.database)
    thread.join()

    assert [each.name for each in found.tables[logged.database, "t"].columns][-1] == "y"
    assert query(server, "SHOW COLUMNS FROM t", database=logged.database)[-1][0] == "y"
    assert found.position == logged.stop


# All that MySQL and MariaDB allow: neither NUL, nor a space at the end, nor what is beyond U+FFFF.
NAMES = [
    *("back`tick", "quo'te\"s", "new\r\nline\ttab", ";-- DROP TABLE t", "/*x*/", "a.b/../c", ".."),
    *("50%", "%2F", "_log", "manifests", "~", "\\", "\\'", "*[?]", "{{ ds }}", "${a}", " leading"),
    *("日本\u00e9", "e\u0301", "\x01\x7f", "\u2028", "NULL", "x" * 50),
]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
@pytest.mark.parametrize("sparse", [True, False])
def test_names_of_any_characters(
    start_server: Callable[[str], Server], name: str, *, sparse: bool
) -> None:
    server, number = start_server(name), next(_numbers)
    statements: list[str] = []
    for each in NAMES:
        database, old, new = (f"{front}{each}" for front in (f"odd{number}", "", "n"))
        table, column = f"{quoted(database)}.{quoted(old)}", quoted(old)
        value = each.replace("\\", "\\\\").replace("'", "''")
        statements += [
            f"CREATE DATABASE {quoted(database)} CHARACTER SET utf8mb4",
            f"CREATE TABLE {table} (id INT PRIMARY KEY, {column} INT, e ENUM('a', '{value}'))",
            f"INSERT INTO {table} VALUES (1, 2, '{value}')",
            f"ALTER TABLE {table} RENAME COLUMN {column} TO {quoted(new)}, ADD {column} INT",
            f"INSERT INTO {table} VALUES (2, 3, 'a', 4)",
            f"RENAME TABLE {table} TO {quoted(database)}.{quoted(new)}",
            f"UPDATE {quoted(database)}.{quoted(new)} SET {quoted(new)} = 5 WHERE id = 1",
        ]
    logged = happen(server, SPARSE[name] if sparse else "FULL", *statements)
    staging = Staging()
    manifest = staging.stage(replace(logged, database=f"odd{number}*"))

    found = {(table.database, table.table): table for table in manifest.tables}
    assert set(found) == {(f"odd{number}{each}", f"n{each}") for each in NAMES}
    for each in NAMES:
        staged = found[f"odd{number}{each}", f"n{each}"]
        first, *others = staged.schemas
        assert [field.name for field in first.fields] == ["id", each, "e"]
        for schema in others:
            assert [field.name for field in schema.fields] == ["id", f"n{each}", "e", each]
        rows = [
            tuple(row.values())[: len(staged.schema(part.schema).fields)]
            for part in staged.parts
            for row in pq.read_table(
                io.BytesIO(staging.store.read(f"past/{part.path}"))
            ).to_pylist()
            if row["_change_type"] != "update_preimage"
        ]
        assert rows == [(1, 2, each), (2, 3, "a", 4), (1, 5, each, None)]
        database, new = quoted(f"odd{number}{each}"), quoted(f"n{each}")
        assert query(server, f"SELECT * FROM {database}.{new}") == [rows[2], rows[1]]
        execute(server, f"DROP DATABASE {database}")


def quoted(name: str) -> str:
    """Return an identifier, quoted."""
    return f"`{name.replace('`', '``')}`"
