"""Values that are seldom tested, as each tool gives them: a table per value, loaded and updated.

Printed beside what SELECT returns, as text: nothing is judged here, for one value has several
faithful forms.
"""

from __future__ import annotations

import json
import shutil
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import ExtractRequest, TableFilter
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.snapshot.plan import SnapshotRequest
from airflow_provider_binlog.snapshot.take import take_snapshot
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.transport.server.queries import identify, log_end
from tests.bench.pipelines import FOLDER, OURS, settle, spend
from tests.fixtures.mysql import connect, execute
from tests.services.progress import ServiceError, step
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from tests.bench.peers.tools import Debezium, Loader
    from tests.services.servers import Server

    Given = dict[str, str]
    """The value that a tool gives, by table."""

_VALUES = {
    "latin1": ("varchar(20) CHARACTER SET latin1", "'Größe €'"),
    "unsigned": ("bigint unsigned", "18446744073709551615"),
    "decimal": ("decimal(38,10)", "-1234567890123456789012345678.0123456789"),
    "span": ("time", "'-838:59:59'"),
    "zero_date": ("date", "'0000-00-00'"),
    "zero_date_not_null": ("date NOT NULL", "'0000-00-00'"),
    "invalid_moment": ("datetime", "'2026-02-00 10:00:00'"),
    "micros": ("datetime(6)", "'9999-12-31 23:59:59.999999'"),
    "old_day": ("date", "'0001-01-01'"),
    "bits": ("bit(12)", "b'101000000001'"),
    "state": ("enum('a','ü,x')", "'ü,x'"),
    "document": (
        "json",
        """'{"n": 18446744073709551615, "d": 1.0, "e": 1e20, "t": "ü"}'""",
    ),
    "year_zero": ("year", "0"),
    "code": ("binary(16)", "X'00112233445566778899AABBCCDD0000'"),
    "trailing": ("varchar(10)", "CONCAT('a', CHAR(0))"),
    "float_value": ("float", "16777217.5"),
    "a/b": ("varchar(10)", "'slash'"),
}
_ENGINES: dict[str, dict[str, str]] = {
    "Debezium": {},
    "Debezium, exact": {
        "decimal.handling.mode": "string",
        "bigint.unsigned.handling.mode": "precise",
        "enable.time.adjuster": "false",
    },
}
"""Titles and options beside the defaults."""

_NAMES = (*_VALUES, "altered")


def compare_values(
    server: Server, debezium: Debezium | None, loaders: Mapping[str, Loader]
) -> dict[str, Given]:
    """Print and return what each tool gives, and SELECT."""
    _create(server)
    settings = ConnectionSettings.from_dsn(f"{server.dsn}/?ssl_mode=disabled")
    with closing(connect(server)) as connection:
        start, identity = log_end(connection), identify(connection)
    found = {"SELECT": dict(_select(server))}
    with step("values: ours, loaded"):
        found[f"{OURS}, loaded"] = _load(settings)
    states: dict[str, Path] = {}
    if debezium is not None:
        for title, options in _ENGINES.items():
            state = states[title] = FOLDER / f"state{len(states)}"
            state.mkdir()
            with step(f"values: {title}, loaded"):
                found[f"{title}, loaded"] = _run_engine(server, debezium, state, options, "initial")
    for title, loader in loaders.items():
        with step(f"values: {title}"):
            found[f"{title}, loaded"] = dict(_load_with(server, loader))
    _change(server)
    with closing(connect(server)) as connection:
        stop = log_end(connection)
    request = ExtractRequest(
        identity=identity,
        start=start,
        sequence=1,
        stop=stop,
        tables=TableFilter(["nasty.*"]),
        before_images=BeforeImages.ALL,
        source_name="bench",
        created_by="bench",
    )
    found[f"{OURS}, from the log"] = _extract(request, settings)
    if debezium is not None:
        for title, options in _ENGINES.items():
            with step(f"values: {title}, from the log"):
                found[f"{title}, from the log"] = _run_engine(
                    server, debezium, states[title], options, "initial"
                )
    for name in found["SELECT"]:
        print(f"\n{name}")
        for title, given in found.items():
            print(f"  {title:44} {given.get(name, '–')}")
    return found


def _create(server: Server) -> None:
    execute(
        server,
        "CREATE DATABASE nasty CHARACTER SET utf8mb4",
        *(
            f"CREATE TABLE nasty.`{name}` (id int PRIMARY KEY, `from` {definition}, n int)"
            for name, (definition, _) in _VALUES.items()
        ),
        "SET SESSION sql_mode = ''",
        *(
            f"INSERT INTO nasty.`{name}` VALUES (1, {value}, 0)"
            for name, (_, value) in _VALUES.items()
        ),
        "CREATE TABLE nasty.altered (id int PRIMARY KEY, z int)",
        "INSERT INTO nasty.altered VALUES (1, 1)",
    )


def _change(server: Server) -> None:
    """Update each row; add a column with a default between others, and a row."""
    execute(
        server,
        "SET SESSION sql_mode = ''",
        *(f"UPDATE nasty.`{name}` SET n = n + 1" for name in _VALUES),
        "ALTER TABLE nasty.altered ADD COLUMN `from` int NOT NULL DEFAULT 7 AFTER id",
        "INSERT INTO nasty.altered (id, z) VALUES (2, 2)",
    )


def _select(server: Server) -> Iterator[tuple[str, str]]:
    with closing(connect(server, conv={})) as connection, connection.cursor() as cursor:
        for name in _VALUES:
            cursor.execute(f"SELECT `from` FROM nasty.`{name}`")
            yield name, _text(cursor.fetchall()[0][0])
    yield "altered", "(1, 7, 1), (2, 7, 2) at last"


def _load(settings: ConnectionSettings) -> Given:
    given: Given = {}
    for name in _NAMES:
        folder = FOLDER / "ours"
        shutil.rmtree(folder, ignore_errors=True)
        request = SnapshotRequest(source_name="bench", name=("nasty", name), created_by="bench")
        take_snapshot(request, settings.connect, open_store(folder.as_uri()))
        given |= _read_files(folder, name)
    return given


def _extract(request: ExtractRequest, settings: ConnectionSettings) -> Given:
    folder = FOLDER / "ours"
    given: Given = {}
    shutil.rmtree(folder, ignore_errors=True)
    extract(request, ServerLog(settings), open_store(folder.as_uri()))
    for part in folder.rglob("*.parquet"):
        name = next(table for table in _NAMES if table.replace("/", "%2F") in part.parts)
        given |= _read_files(part, name)
    return given


def _load_with(server: Server, loader: Loader) -> Iterator[tuple[str, str]]:
    work = FOLDER / "work"
    for name in _NAMES:
        shutil.rmtree(work, ignore_errors=True)
        work.mkdir()
        try:
            spend(loader.start(server.port, "nasty", name, work), loader.environment)
            yield from _read_files(work, name).items()
        except ServiceError as error:
            yield name, f"refused: {str(error).strip().splitlines()[-1][:160]}"


def _run_engine(
    server: Server, debezium: Debezium, state: Path, options: dict[str, str], snapshot: str
) -> Given:
    """Run the engine until it reads the log."""
    output = state / "events.json"
    command = debezium.command(
        state,
        server.port,
        tables=r"(nasty|bench)\..*",
        output=str(output),
        rows=0,
        snapshot=snapshot,
        stop=True,
        options=options | {"database.server.id": str(4_000_000_000 + len(options))},
    )
    settle(server, command)
    given: Given = {}
    for line in output.read_text().splitlines():
        event = json.loads(line)
        name = event["source"]["table"]
        after = event["after"]
        shown = str(after) if name == "altered" else _text(after.get("from"))
        given[name] = f"{given[name]}; {shown}" if name in given else shown
    return given


def _read_files(path: Path, name: str) -> Given:
    """Return what Parquet files hold of a table, the type beside it."""
    files = [path] if path.is_file() else sorted(path.rglob("*.parquet"))
    rows: list[str] = []
    for file in files:
        table = pq.read_table(file, partitioning=None)
        if name == "altered":
            names = [column for column in ("id", "from", "z") if column in table.column_names]
            rows += map(str, table.select(names).to_pylist())
        elif "from" in table.column_names:
            values = _values(table["from"])
            rows += [f"{value} ({table.schema.field('from').type})" for value in values]
        else:
            rows.append(f"no column `from` in {table.column_names}")
    return {name: "; ".join(dict.fromkeys(rows)) or "no rows"}


def _values(column: Any) -> Iterable[str]:
    try:
        return [_text(value) for value in column.to_pylist()]
    except (ValueError, OverflowError) as error:
        return [f"unreadable: {error}"]


def _text(value: object) -> str:
    return (
        value.hex()
        if isinstance(value, bytes)
        else json.dumps(value, default=str, ensure_ascii=False)
    )
