"""Foreign keys that change rows: those that the log is silent about are named, and no others."""

from __future__ import annotations

from contextlib import closing
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from airflow.sdk.exceptions import AirflowSkipException

from airflow_provider_binlog.cli.run import main
from airflow_provider_binlog.operators import extract
from airflow_provider_binlog.transport.foreign_keys import unlogged_foreign_keys
from tests.fixtures.mysql import Database, connect, execute
from tests.services.servers import Server
from tests.support.ranges import apply, happen, live, select, stage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

SERVERS: dict[str, tuple[str, dict[str, str]]] = {
    "mysql97": ("mysql97", {}),
    "mysql97 as before": ("mysql97", {"innodb_native_foreign_keys": "ON"}),
    "mysql80": ("mysql80", {}),
    "mariadb1011": ("mariadb1011", {}),
    "mariadb118": ("mariadb118", {}),
}
TABLES = [
    "CREATE TABLE parents (id INT PRIMARY KEY)",
    """CREATE TABLE deleted (id INT PRIMARY KEY, parent INT, CONSTRAINT gone
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE CASCADE)""",
    """CREATE TABLE emptied (id INT PRIMARY KEY, parent INT, CONSTRAINT none
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE SET NULL ON UPDATE CASCADE)""",
    """CREATE TABLE kept (id INT PRIMARY KEY, parent INT,
        FOREIGN KEY (parent) REFERENCES parents (id) ON DELETE RESTRICT ON UPDATE NO ACTION)""",
]
ROWS = [
    "INSERT INTO parents VALUES (1), (2), (3)",
    "INSERT INTO deleted VALUES (1, 1), (2, 2)",
    "INSERT INTO emptied VALUES (1, 1), (2, 2)",
    "INSERT INTO kept VALUES (3, 3)",
]


@pytest.fixture(params=list(SERVERS))
def database(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Database]:
    """A database on a server of its own."""
    name, options = SERVERS[request.param]
    server = Server.create(name, tmp_path / "server")
    server.start(options)
    try:
        execute(server, "CREATE DATABASE shop")
        yield Database(server, "shop")
    finally:
        server.stop()


def test_named_is_what_the_log_is_silent_about(
    database: Database, capsys: pytest.CaptureFixture[str]
) -> None:
    happened = happen(
        database, *TABLES, *ROWS, "DELETE FROM kept", "DELETE FROM parents WHERE id = 1"
    )

    staged, expected = apply(stage(live(database.server), happened)), select(database)

    lost = {name for name in ("deleted", "emptied") if staged[name] != expected[name]}
    with closing(connect(database.server)) as connection:
        found = unlogged_foreign_keys(connection, lambda schema, _: schema == "shop")
        assert unlogged_foreign_keys(connection, lambda *_: False) == []
    assert {each.table for each in found} == lost
    if lost:
        assert list(map(str, found)) == [
            "shop.deleted: gone ON DELETE CASCADE",
            "shop.emptied: none ON DELETE SET NULL ON UPDATE CASCADE",
        ]
    capsys.readouterr()
    assert main(["status", database.server.dsn]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line.startswith("unlogged")] == [
        f"unlogged  {each}" for each in found
    ]


def test_an_extract_warns_of_those_of_captured_tables(
    mariadb118: Server,
    create_database: Callable[[Server], Database],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    database = create_database(mariadb118)
    database.execute(*TABLES)
    warned: list[str] = []
    log = SimpleNamespace(
        info=lambda *_: None, warning=lambda text, *values: warned.append(text % values)
    )
    variables: dict[str, str] = {}
    store = SimpleNamespace(get=variables.get, set=variables.__setitem__)
    monkeypatch.setattr(extract, "AirflowVariableStore", lambda: store)
    monkeypatch.setattr(extract.BinlogExtractOperator, "log", log)
    monkeypatch.setenv(
        "AIRFLOW_CONN_BINLOG_DEFAULT", f"binlog://root@{mariadb118.host}:{mariadb118.port}"
    )
    operator = extract.BinlogExtractOperator(
        task_id="stage",
        source="shop",
        start="now",
        staging_path=f"file://{tmp_path}",
        tables=[f"{database.name}.*"],
        exclude=["*.deleted"],
    )
    context: Any = {"ti": SimpleNamespace(dag_id="shop", run_id="r", task_id="stage")}

    with pytest.raises(AirflowSkipException):
        operator.execute(context)

    (warning,) = (text for text in warned if "foreign key" in text)
    assert f"{database.name}.emptied: none ON DELETE SET NULL ON UPDATE CASCADE" in warning
