"""`status`, `check` and the connection's test name everything that is missing, whatever it is."""

from __future__ import annotations

import json
from contextlib import closing
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog import BinlogHook
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.errors import ServerSetupError
from airflow_provider_binlog.transport.server.queries import (
    binary_logs,
    first_position,
    identify,
    log_end,
)
from airflow_provider_binlog.transport.server.setup import check_setup
from tests.fixtures.mysql import connect, execute
from tests.services.servers import Server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


def dsn(server: Server) -> str:
    """Return the address of an account that has no privilege."""
    execute(server, "CREATE USER IF NOT EXISTS stranger IDENTIFIED BY 'p'")
    return f"mysql://stranger:p@{server.host}:{server.port}"


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, Any]:
    """Run a command; return its exit code, and what it printed."""
    capsys.readouterr()
    code = main([*arguments, "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def test_an_account_without_any_grant(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    code, status = run(capsys, "status", dsn(server))

    assert code == 1
    assert status["server"] == f"{server.host}:{server.port}"
    assert status["version"] == server.version
    assert status["capture"] == "not ready"
    first, second = status["problems"]
    assert first.startswith("the account lacks REPLICATION CLIENT")
    assert first.endswith("GRANT REPLICATION CLIENT ON *.* TO `stranger`@`%`;")
    assert second.endswith("GRANT REPLICATION SLAVE ON *.* TO `stranger`@`%`;")

    code, findings = run(capsys, "check", dsn(server), "--tables", "mysql.*")
    assert code == 1
    errors = [each["repair"] for each in findings if each["level"] == "error"]
    assert errors == [text.rpartition(": ")[2] for text in (first, second)]


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_a_server_without_a_log(
    name: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = Server.create(name, tmp_path / "server")
    server.start({"skip_log_bin": 1, "binlog_format": "MIXED"})
    monkeypatch.setenv("AIRFLOW_CONN_BINLOG_DEFAULT", f"binlog://root@{server.host}:{server.port}")
    try:
        as_root = run(capsys, "status", server.dsn)
        as_stranger = run(capsys, "status", dsn(server))
        is_ready, tested = BinlogHook().test_connection()
        with closing(connect(server)) as connection:
            for query in (identify, log_end, binary_logs, first_position, check_setup):
                with pytest.raises(ServerSetupError, match="put log_bin=binlog under"):
                    query(connection)
    finally:
        server.stop()

    for code, status in (as_root, as_stranger):
        assert (code, status["version"]) == (1, server.version)
        assert status["problems"][0].startswith("the server writes no binary log: put log_bin=")
        assert status["problems"][1].startswith("binlog_format is MIXED")
    assert len(as_root[1]["problems"]) == 2
    assert not is_ready
    assert "(1) the server writes no binary log: put log_bin=binlog under" in tested
    assert "(2) binlog_format is MIXED" in tested
    assert "REPLICATION CLIENT" in as_stranger[1]["problems"][2]
    assert "REPLICATION SLAVE" in as_stranger[1]["problems"][3]
