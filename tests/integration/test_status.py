"""`status` and the connection's test name everything that is missing, whatever it is."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.cli.commands import main
from tests.fixtures.mysql import execute
from tests.services.servers import Server

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.server


def dsn(server: Server) -> str:
    """Return the address of an account that has no privilege."""
    execute(server, "CREATE USER IF NOT EXISTS stranger IDENTIFIED BY 'p'")
    return f"mysql://stranger:p@{server.host}:{server.port}"


def test_an_account_without_any_grant(server: Server, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["status", dsn(server)]) == 1

    printed = capsys.readouterr()
    assert printed.out.startswith(f"server    {server.host}:{server.port}, {server.version}")
    assert "(1) the account lacks REPLICATION CLIENT" in printed.err
    assert "GRANT REPLICATION CLIENT ON *.* TO `stranger`@`%`;" in printed.err
    assert "GRANT REPLICATION SLAVE ON *.* TO `stranger`@`%`;" in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize("name", ["mysql97", "mariadb118"])
def test_a_server_without_a_log(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = Server.create(name, tmp_path / "server")
    server.start({"skip_log_bin": 1, "binlog_format": "MIXED"})
    try:
        capsys.readouterr()
        as_root = main(["status", server.dsn]), capsys.readouterr()
        as_stranger = main(["status", dsn(server)]), capsys.readouterr()
    finally:
        server.stop()

    for code, printed in (as_root, as_stranger):
        assert code == 1
        assert server.version in printed.out
        assert "(1) the server writes no binary log: put log_bin=binlog under" in printed.err
        assert "(2) binlog_format is MIXED" in printed.err
    assert "REPLICATION" not in as_root[1].err
    assert "(3) the account lacks REPLICATION CLIENT" in as_stranger[1].err
    assert "(4) the account lacks REPLICATION SLAVE" in as_stranger[1].err
