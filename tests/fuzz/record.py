"""Make the logs that fuzzing begins with: `python -m tests.fuzz.record`.

Every server writes small files with as many kinds of events and columns as it has; they are kept in
`seeds/`, so that fuzzing needs no server.
"""

from __future__ import annotations

import shutil
import tempfile
from contextlib import closing, suppress
from pathlib import Path

import pymysql

from tests.fixtures.mysql import connect
from tests.fuzz.seeds import SEEDS
from tests.services.servers import Server

_COLUMNS = """id int unsigned PRIMARY KEY AUTO_INCREMENT, i1 tinyint, i2 smallint unsigned,
    i3 mediumint, i8 bigint unsigned, f float, d double, n1 decimal(10,2), n2 decimal(65,30),
    b bit(10), y year, d1 date, d2 datetime(6), d3 timestamp(3) NULL, t time(2), c char(10),
    v varchar(300), k char(4) CHARACTER SET gbk, u varchar(20) CHARACTER SET ucs2,
    x binary(5), w varbinary(40), p text, q mediumblob, e enum('new','grün',''),
    s set('a','b','grün')"""
_ROW = """(DEFAULT, -7, 65535, -8388608, 18446744073709551615, 1.5, -0.1, 12345678.90,
    -1234567890.123456789, b'1000000001', 2024, '2024-02-29', '9999-12-31 23:59:59.987654',
    '2024-05-06 07:08:09.123', '-838:59:58.25', 'é日', REPEAT('ab', 40), '日本', '日本é', x'0102',
    x'00ff', 'some text', x'000102', 'grün', 'a,grün')"""
_NULLS = f"(DEFAULT{', NULL' * 24})"

STATEMENTS = [
    f"CREATE TABLE every ({_COLUMNS})",
    "CREATE TABLE plain (a int, b varchar(20), KEY (a))",
    "CREATE TABLE pair (a int, b varchar(20), c blob, PRIMARY KEY (b, a))",
    "FLUSH BINARY LOGS",
    f"INSERT INTO every VALUES {_ROW}, {_NULLS}, {_ROW}",
    "UPDATE every SET i1 = i1 + 1, d2 = '1969-12-31 00:00:00', t = NULL WHERE id = 1",
    "UPDATE every SET id = id + 100",
    "DELETE FROM every WHERE id = 102",
    "FLUSH BINARY LOGS",
    "BEGIN",
    "INSERT INTO plain VALUES (1, 'one'), (1, 'one'), (NULL, NULL)",
    "INSERT INTO pair SELECT COALESCE(a, 7), COALESCE(b, 'x'), x'00' FROM plain GROUP BY 1, 2",
    "SAVEPOINT here",
    "DELETE FROM plain WHERE a = 1 LIMIT 1",
    "ROLLBACK TO here",
    "UPDATE plain, pair SET plain.b = 'two', pair.b = 'two' WHERE plain.a = pair.a",
    "COMMIT",
    "XA START 'a', 'b', 7",
    "DELETE FROM pair",
    "XA END 'a', 'b', 7",
    "XA PREPARE 'a', 'b', 7",
    "XA COMMIT 'a', 'b', 7",
    "ALTER TABLE plain ADD COLUMN c json",
    "INSERT INTO plain VALUES (5, 'five', '{\"a\": [1, 2.5, null]}')",
    "RENAME TABLE plain TO simple",
    "TRUNCATE TABLE pair",
    "SET GLOBAL binlog_checksum = 'NONE'",
    "FLUSH BINARY LOGS",
    "INSERT INTO pair VALUES (1, '1', REPEAT('z', 300)), (2, '2', '')",
    "SET GLOBAL binlog_checksum = 'CRC32'",
    # What is refused: it must be refused in order, whatever its bytes.
    "SET SESSION binlog_format = STATEMENT",
    "SET @v = 'x'",
    "INSERT INTO pair VALUES (3, @v, RAND())",
    "SET SESSION binlog_format = ROW",
]
MYSQL_STATEMENTS = [
    "SET SESSION gtid_next = 'AUTOMATIC:tag'",
    "INSERT INTO pair VALUES (4, '4', '')",
    "SET SESSION gtid_next = 'AUTOMATIC'",
    "SET SESSION binlog_transaction_compression = ON",
    "INSERT INTO pair VALUES (5, '5', '')",
    "SET SESSION binlog_transaction_compression = OFF",
    "FLUSH BINARY LOGS",
]
MARIADB_STATEMENTS = [
    "SET SESSION server_id = 9, gtid_domain_id = 3",
    "INSERT INTO pair VALUES (4, '4', '')",
    "SET SESSION skip_replication = 1",
    "INSERT INTO pair VALUES (5, '5', '')",
    "CREATE SEQUENCE counter",
    "SELECT NEXTVAL(counter)",
    "FLUSH BINARY LOGS",
]


def record(name: str) -> None:
    """Write the logs of one kind of server."""
    with tempfile.TemporaryDirectory() as folder:
        server = Server.create(name, Path(folder))
        family = MARIADB_STATEMENTS if name.startswith("mariadb") else MYSQL_STATEMENTS
        own = {} if name.startswith("mariadb") else {"binlog_rows_query_log_events": "ON"}
        server.start({"server_id": 1, **own})
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            cursor.execute("CREATE DATABASE shop CHARACTER SET utf8mb4")
            cursor.execute("USE shop")
            for statement in [*STATEMENTS, *family]:
                # No server has all of it.
                with suppress(pymysql.MySQLError):
                    cursor.execute(statement)
        server.stop()
        for file in sorted(server.data.glob(f"binlog.{'[0-9]' * 6}")):
            shutil.copyfile(file, SEEDS / f"{name}-{file.name}")


if __name__ == "__main__":
    SEEDS.mkdir(exist_ok=True)
    for release in ("mysql97", "mariadb1011", "mariadb118"):
        record(release)
