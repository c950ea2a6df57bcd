"""Have real servers write the corpus: `python -m tests.corpus.record [CASE ...]`."""

from __future__ import annotations

import json
import shutil
import sys
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.corpus.case import SERVERS, Case, Recorded, cases
from tests.fixtures.mysql import connect
from tests.services.servers import Server

if TYPE_CHECKING:
    from collections.abc import Sequence

DATABASE = "corpus"


def main(names: Sequence[str]) -> None:
    """Record the named cases, or all."""
    chosen = [case for case in cases() if not names or case.name in names]
    for name in SERVERS:
        wanted = [case for case in chosen if name in case.servers]
        if not wanted:
            continue
        with tempfile.TemporaryDirectory() as folder:
            server = Server.create(name, Path(folder))
            server.start({"server_id": 1})
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
    with closing(connect(server, init_command="SET time_zone = '+00:00'")) as connection:
        cursor = connection.cursor()

        def ask(sql: str) -> list[tuple[Any, ...]]:
            cursor.execute(sql)
            return list(cursor.fetchall())

        ask(f"DROP DATABASE IF EXISTS {DATABASE}")
        before = {}
        for name, value in case.globals_.items():
            before[name] = ask(f"SELECT @@GLOBAL.{name}")[0][0]
            ask(f"SET GLOBAL {name} = {value}")
        with closing(connect(server)) as fresh, fresh.cursor() as writer:
            writer.execute("FLUSH BINARY LOGS")
            first = ask("SHOW BINARY LOGS")[-1][0]
            writer.execute(f"CREATE DATABASE {DATABASE} CHARACTER SET utf8mb4")
            writer.execute(f"USE {DATABASE}")
            writer.execute("SET time_zone = '+00:00'")
            for statement in case.statements:
                writer.execute(statement)
            last = ask("SHOW BINARY LOGS")[-1][0]
            writer.execute("FLUSH BINARY LOGS")
        for name, value in before.items():
            ask(f"SET GLOBAL {name} = {value!r}")
        ask(f"USE {DATABASE}")
        names = [row[0] for row in ask("SHOW BINARY LOGS") if first <= row[0] <= last]
        for name in names:
            shutil.copyfile(server.data / name, target / name)
        expected = {
            "version": server.version,
            "columns": _columns(cursor, case),
            "rows": sorted([_texts(row) for row in ask(f"SELECT {case.select} FROM t")], key=str),
            "defaults": _defaults(ask, case),
            "events": {name: _events(ask, name) for name in names},
        }
    text = json.dumps(expected, ensure_ascii=False, indent=1)
    (target / "expected.json").write_text(text + "\n")


def _columns(cursor: Any, case: Case) -> list[str]:
    cursor.execute(f"SELECT {case.select} FROM t LIMIT 0")
    return [each[0] for each in cursor.description]


def _defaults(ask: Any, case: Case) -> list[str | None]:
    """Return what a row has that nobody gave a value."""
    ask("SET sql_log_bin = 0, sql_mode = ''")
    ask("DELETE FROM t")
    ask("INSERT INTO t (id) VALUES (0)")
    (row,) = ask(f"SELECT {case.select} FROM t")
    ask("SET sql_log_bin = 1")
    return _texts(row)


def _texts(row: tuple[Any, ...]) -> list[str | None]:
    return [None if value is None else str(value) for value in row]


def _events(ask: Any, file: str) -> list[list[Any]]:
    """Return position and type of the file's events; those inside a compressed one are left out."""
    found: dict[int, str] = {}
    for _file, position, kind, _server, end, _info in ask(f"SHOW BINLOG EVENTS IN '{file}'"):
        if position != end:
            found.setdefault(position, kind)
    return [list(each) for each in sorted(found.items())]


if __name__ == "__main__":
    main(sys.argv[1:])
