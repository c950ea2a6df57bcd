"""`check` says ready where an extract of the tables is not refused, and quarantines none."""

from __future__ import annotations

import json
import time
from contextlib import closing, suppress
from datetime import timedelta
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pymysql
import pytest
from airflow.sdk import BaseHook, Connection

from airflow_provider_binlog import BinlogExtractOperator, BinlogHook, BinlogSource
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.operators import extract
from airflow_provider_binlog.sources.lag import read_lag
from airflow_provider_binlog.transport.server import queries, setup
from tests.fixtures.mysql import connect, execute
from tests.services.servers import Server
from tests.support.extract_worker import context
from tests.support.stores import Checkpoints

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server

USER = "checked"
TABLES = {
    "plain": "id INT PRIMARY KEY, v VARCHAR(9)",
    "keyless": "a INT",
    "`a b`": "id INT PRIMARY KEY, e ENUM('x'), j JSON, g GEOMETRY",
    "taken": "id INT PRIMARY KEY, _row INT",
}
OF_MARIADB = {
    "versioned": "id INT PRIMARY KEY) WITH SYSTEM VERSIONING -- ",
    "computed": "id INT PRIMARY KEY, v INT AS (id + 1) VIRTUAL",
}


@pytest.fixture(scope="module", params=["mysql97", "mariadb118"])
def server(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Server]:
    server = Server.create(request.param, tmp_path_factory.mktemp(request.param))
    server.start()
    yield server
    server.stop()


@pytest.fixture
def shop(server: Server) -> Iterator[list[str]]:
    """Names of tables of which some cannot be captured; an account may read the log."""
    of_mariadb = OF_MARIADB if server.name.startswith("mariadb") else {}
    tables = TABLES | of_mariadb
    execute(server, "CREATE DATABASE shop")
    execute(
        server,
        *(f"CREATE TABLE {name} ({columns})" for name, columns in tables.items()),
        f"CREATE USER {USER} IDENTIFIED BY 'p'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {USER}",
        database="shop",
    )
    yield [name.strip("`") for name in tables]
    execute(server, "DROP DATABASE shop", f"DROP USER {USER}")


def check(
    server: Server, capsys: pytest.CaptureFixture[str], *tables: str
) -> tuple[int, list[dict[str, Any]]]:
    capsys.readouterr()
    address = f"mysql://{USER}:p@{server.host}:{server.port}"
    code = main(["check", address, "-o", "json", *(["--tables", *tables] if tables else ())])
    return code, json.loads(capsys.readouterr().out)


def show_status(server: Server, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["status", f"mysql://{USER}:p@{server.host}:{server.port}", "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def connection_to(server: Server) -> Connection:
    return Connection(
        conn_id="binlog_default",
        conn_type="binlog",
        host=server.host,
        port=server.port,
        login=USER,
        password="p",
    )


def tables_in_error(findings: list[dict[str, Any]]) -> set[str]:
    errors = [each for each in findings if each["level"] == "error"]
    assert all(each["tables"] and each["why"] for each in errors)
    return {table for each in errors for table in each["tables"]}


def quarantined(
    server: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, rows: dict[str, str]
) -> set[str]:
    """Return the tables that an extract quarantines once rows of all have changed."""
    with closing(connect(server)) as connection:
        end = queries.log_end(connection)
    for name, values in rows.items():
        execute(server, f"INSERT INTO `{name}` {values}", database="shop")
    variables = Checkpoints()
    monkeypatch.setattr(extract, "AirflowVariableStore", lambda: variables)
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection_to(server))
    staged = BinlogExtractOperator(
        task_id="stage",
        source=BinlogSource("shop", start=f"{end.file}:{end.offset}"),
        staging_path=f"file://{tmp_path}",
        tables=["shop.*"],
    ).execute(context())
    return set(staged["quarantined"])


ROWS = {
    "plain": "VALUES (1, 'a')",
    "keyless": "VALUES (1)",
    "a b": "VALUES (1, 'x', '{}', POINT(1, 1))",
    "taken": "VALUES (1, 1)",
    "versioned": "(id) VALUES (1)",
    "computed": "(id) VALUES (1)",
}


def test_errors_are_the_tables_that_are_quarantined(
    server: Server,
    shop: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    execute(server, f"GRANT SELECT ON shop.* TO {USER}")

    code, findings = check(server, capsys, "shop.*")

    wrong = tables_in_error(findings)
    assert code == 1
    assert "shop.taken" in wrong
    rows = {name: ROWS[name] for name in shop}
    # An update of `computed` is what its log may lack, not an insert.
    if "shop.computed" in wrong:
        execute(server, "INSERT INTO computed (id) VALUES (5)", database="shop")
        rows["computed"] = "(id) VALUES (5) ON DUPLICATE KEY UPDATE id = 6"
    assert quarantined(server, monkeypatch, tmp_path, rows) == wrong
    warned = {table for each in findings if each["level"] == "warning" for table in each["tables"]}
    assert warned == {"shop.keyless"}

    exclude = ["--exclude", *wrong]
    address = f"mysql://{USER}:p@{server.host}:{server.port}"
    assert main(["check", address, "--tables", "shop.*", *exclude]) == 0


def test_missing_metadata_without_a_select_is_not_ready(
    server: Server,
    shop: list[str],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    execute(server, "SET GLOBAL binlog_row_metadata = MINIMAL")
    try:
        code, findings = check(server, capsys, "shop.plain")
        left_out = quarantined(server, monkeypatch, tmp_path, {"plain": ROWS["plain"]})

        assert code == 1
        assert "shop.plain" in left_out
        status_code, status = show_status(server, capsys)
        assert (status_code, status["capture"]) == (1, "not ready")
        assert "GRANT SELECT ON" in status["problems"][0]
        (finding,) = [each for each in findings if each["check"] == "tables"]
        # What it says mends it.
        grant = finding["repair"].partition("or ")[2]
        execute(server, grant)
        assert check(server, capsys, "shop.plain")[0] == 0
        status = show_status(server, capsys)[1]
        assert (status["capture"], "`check --tables`" in status["not checked"]) == ("ready", True)
        rows = {"plain": "VALUES (2, 'b')"}
        assert quarantined(server, monkeypatch, tmp_path / "again", rows) == set()
    finally:
        execute(server, "SET GLOBAL binlog_row_metadata = FULL")


def test_tables_that_the_log_names_need_no_select(
    server: Server, shop: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    execute(server, f"GRANT INSERT ON shop.* TO {USER}")

    code, findings = check(server, capsys, "shop.plain")

    (select,) = [each for each in findings if each["check"] == "privilege SELECT"]
    needed = server.name.startswith("mariadb")
    assert (code, select["level"]) == ((1, "error") if needed else (0, "warning"))
    assert select["tables"] == ["shop.plain"]
    execute(server, select["repair"])
    assert check(server, capsys, "shop.plain")[0] == 0


LOCK_GRANTS = {
    "none": ["GRANT SELECT ON shop.* TO {user}"],
    "as it says": ["GRANT SELECT, LOCK TABLES ON `shop`.* TO {user}"],
    "a pattern": [r"GRANT SELECT, LOCK TABLES ON `sh_p`.* TO {user}"],
    "a pattern beside the name": [
        "GRANT SELECT ON shop.* TO {user}",
        r"GRANT LOCK TABLES ON `sh_p`.* TO {user}",
    ],
    "a role": [
        "CREATE ROLE locks",
        "GRANT SELECT, LOCK TABLES ON shop.* TO locks",
        "GRANT locks TO {user}",
        "SET DEFAULT ROLE locks {to} {user}",
    ],
}


@pytest.mark.parametrize("case", LOCK_GRANTS)
def test_a_snapshot_of_some_tables_needs_a_lock(
    case: str, server: Server, shop: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    is_mariadb = server.name.startswith("mariadb")
    to = "FOR" if is_mariadb else "TO"
    execute(server, "CREATE TABLE shop.old (id INT PRIMARY KEY) ENGINE=MyISAM")
    execute(server, *(grant.format(user=USER, to=to) for grant in LOCK_GRANTS[case]))
    try:
        findings = check(server, capsys, "shop.keyless", "shop.plain", "shop.old")[1]
        may_lock = False
        with suppress(pymysql.OperationalError):
            execute(server, "LOCK TABLES shop.old READ", user=USER, password="p")
            may_lock = True
    finally:
        if case == "a role":
            execute(server, "DROP ROLE locks")

    (lock,) = [each for each in findings if each["check"] == "privilege LOCK TABLES"]
    assert (lock["level"] == "ok") is may_lock
    if not may_lock:
        keyless = [] if is_mariadb else ["shop.keyless"]
        assert lock["tables"] == [*keyless, "shop.old"]


def test_the_connection_test_says_the_same_of_the_server(
    server: Server, shop: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection_to(server))
    execute(server, "SET GLOBAL binlog_row_image = MINIMAL")
    try:
        blind = BinlogHook().test_connection()
        execute(server, f"GRANT SELECT ON shop.* TO {USER}")
        is_ready, text = BinlogHook().test_connection()
    finally:
        execute(server, "SET GLOBAL binlog_row_image = FULL")

    assert not blind[0]
    assert "GRANT SELECT ON the captured tables" in blind[1]
    assert is_ready
    assert "a table whose rows get other keys is stale" in text
    assert "binlog_row_image = FULL;" in text

    execute(server, f"REVOKE REPLICATION SLAVE ON *.* FROM {USER}")
    is_ready, text = BinlogHook().test_connection()
    assert not is_ready
    assert "lacks REPLICATION SLAVE" in text


@pytest.mark.usefixtures("shop")
def test_a_clock_that_differs_is_a_warning(
    server: Server, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def find() -> dict[str, Any]:
        (clock,) = [row for row in check(server, capsys)[1] if row["check"] == "clock"]
        return clock

    same = find()
    monkeypatch.setattr(setup, "time", SimpleNamespace(time=lambda: time.time() - 60))
    ahead = find()

    assert same["level"] == "ok"
    assert ahead["level"] == "warning"
    assert float(ahead["found"].removesuffix(" s")) == pytest.approx(60, abs=5)


@pytest.fixture
def of_amazon(
    server: Server, shop: list[str], monkeypatch: pytest.MonkeyPatch
) -> Iterator[list[str]]:
    """Name what RDS is recognised by, and what it keeps its log by: a table, two procedures."""
    read = queries.global_variables
    monkeypatch.setattr(
        queries, "global_variables", lambda of: {**read(of), "basedir": "/rdsdbbin/mysql-8.4.7.R1/"}
    )
    execute(
        server,
        "CREATE TABLE rds_configuration (name VARCHAR(60), value VARCHAR(60), description TEXT)",
        "INSERT INTO rds_configuration VALUES ('source delay', '0', 'seconds'), "
        "('binlog retention hours', NULL, 'hours, NULL: not kept')",
        "CREATE PROCEDURE rds_show_configuration() SELECT * FROM rds_configuration",
        "CREATE PROCEDURE rds_set_configuration(n VARCHAR(60), v INT) "
        "UPDATE rds_configuration SET value = v WHERE name = n",
        database="mysql",
    )
    yield shop
    execute(
        server,
        "DROP PROCEDURE rds_show_configuration",
        "DROP PROCEDURE rds_set_configuration",
        "DROP TABLE rds_configuration",
        database="mysql",
    )


def test_what_is_found_of_the_retention_of_rds_is_mended_as_it_says(
    server: Server, of_amazon: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    def find() -> tuple[str, str, str]:
        (found,) = (
            each
            for each in check(server, capsys, "shop.*")[1]
            if each["check"] == "binlog retention hours"
        )
        return found["found"], found["level"], found["repair"]

    def head_room() -> timedelta | None:
        with closing(connect(server, user=USER, password="p")) as connection:
            end, identity = queries.log_end(connection), queries.identify(connection)
        lag = read_lag(lambda: connect(server, user=USER, password="p"), end, identity)
        return lag.head_room

    found, level, grant = find()
    by_settings = head_room()
    execute(server, grant)
    unset, warning, raise_it = find()
    soon = head_room()
    execute(server, raise_it)

    assert (found, level) == ("not known", "warning")
    assert (unset, warning) == ("0:00:00", "warning")
    assert find() == ("7 days, 0:00:00", "ok", "")
    assert by_settings != soon == timedelta()
    assert head_room() == timedelta(days=7)
