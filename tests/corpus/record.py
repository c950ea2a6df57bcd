"""Have real servers write the corpus: `python -m tests.corpus.record [CASE ...]`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pymysql import MySQLError

from tests.corpus.case import SERVERS, Case, Recorded, cases
from tests.fixtures.mysql import Connection, connect
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASE = "corpus"
RESTART = "RESTART"
"""The statement is MySQL's own, but needs a program that starts the server again."""

OPTIONS = {"server_id": 1}


def main(names: Sequence[str]) -> None:
    """Record the named cases, or all."""
    chosen = [case for case in cases() if not names or case.name in names]
    for name in SERVERS:
        wanted = [case for case in chosen if name in case.servers]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = Server.create(name, Path(folder))
            server.start(OPTIONS)
            try:
                for case in wanted:
                    record(server, case)
                    print(f"{case.name} on {name}", flush=True)
            finally:
                server.stop()


def record(server: Server, case: Case) -> None:
    """Write one case's logs, and what the server says of them."""
    target = Recorded(case, server.name).folder
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    before = {}
    with closing(connect(server)) as connection:
        query = partial(_query, connection)
        query(f"DROP DATABASE IF EXISTS {DATABASE}")
        for name, value in case.globals_.items():
            before[name] = query(f"SELECT @@GLOBAL.{name}")[0][0]
            query(f"SET GLOBAL {name} = {value}")
        query("FLUSH BINARY LOGS")
        first = query("SHOW BINARY LOGS")[-1][0]
        query(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
    _write(server, case)
    with closing(connect(server, database=DATABASE)) as connection:
        query = partial(_query, connection)
        last = query("SHOW BINARY LOGS")[-1][0]
        query("FLUSH BINARY LOGS")
        for name, value in before.items():
            query(f"SET GLOBAL {name} = {value!r}")
        names = [row[0] for row in query("SHOW BINARY LOGS") if first <= row[0] <= last]
        for name in names:
            shutil.copyfile(server.data / name, target / name)
        expected = {
            "version": server.version,
            "columns": _columns(connection, case),
            "rows": sorted([_texts(row) for row in query(f"SELECT {case.select} FROM t")], key=str),
            "defaults": _defaults(query, case),
            "events": {name: _events(query, name) for name in names},
        }
    (target / "expected.json").write_text(as_text(expected))


def as_text(expected: dict[str, Any]) -> str:
    """Return what a server said as JSON, with a line for each row and event."""

    def lines(value: Any, indent: str) -> str:
        inner = indent + " "
        if isinstance(value, dict):
            items = [f"{json.dumps(key)}: {lines(item, inner)}" for key, item in value.items()]
            return _joined("{}", items, indent)
        if isinstance(value, list) and value and isinstance(value[0], list):
            return _joined("[]", [json.dumps(row, ensure_ascii=False) for row in value], indent)
        return json.dumps(value, ensure_ascii=False)

    return lines(expected, "") + "\n"


def _joined(brackets: str, items: list[str], indent: str) -> str:
    separator = f",\n{indent} "
    return f"{brackets[0]}\n{indent} {separator.join(items)}\n{indent}{brackets[1]}"


def _write(server: Server, case: Case) -> None:
    """Execute the case's statements, in a session for each start of the server."""
    connection = connect(server, database=DATABASE)
    for statement in case.statements:
        if statement == RESTART:
            connection.close()
            server.restart(OPTIONS)
            connection = connect(server, database=DATABASE)
            continue
        try:
            connection.query(statement)
        except MySQLError as error:
            if error.args[0] != case.fails:
                raise
    connection.close()


def _query(connection: Connection, sql: str) -> list[tuple[Any, ...]]:
    with connection.cursor() as cursor:
        cursor.execute(sql)
        return list(cursor.fetchall())


def _columns(connection: Connection, case: Case) -> list[str]:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {case.select} FROM t LIMIT 0")
        return [each[0] for each in cursor.description]


def _defaults(query: Any, case: Case) -> list[str | None]:
    """Return what a row has that nobody gave a value."""
    query("SET sql_log_bin = 0, sql_mode = ''")
    query("DELETE FROM t")
    query("INSERT INTO t (id) VALUES (0)")
    (row,) = query(f"SELECT {case.select} FROM t")
    query("SET sql_log_bin = 1")
    return _texts(row)


def _texts(row: tuple[Any, ...]) -> list[str | None]:
    return [None if value is None else str(value) for value in row]


def _events(query: Any, file: str) -> list[list[Any]]:
    """Return position and type of the file's events; those inside a compressed one are left out."""
    found: dict[int, str] = {}
    for _file, position, kind, _server, end, _info in query(f"SHOW BINLOG EVENTS IN '{file}'"):
        if position != end:
            found.setdefault(position, kind)
    return [list(each) for each in sorted(found.items())]


if __name__ == "__main__":
    main(sys.argv[1:])
