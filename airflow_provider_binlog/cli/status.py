"""`status`: where a server's log ends, and what it lacks for capture."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.sources.settings import Connections
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.foreign_keys import unlogged_foreign_keys
from airflow_provider_binlog.transport.server.information_schema import describe_tables
from airflow_provider_binlog.transport.server.status import global_variables

if TYPE_CHECKING:
    import argparse

_OWN_DATABASES = ("information_schema", "mysql", "performance_schema", "sys")


def run(arguments: argparse.Namespace) -> None:
    """Print what is found.

    Raises:
        ServerSetupError, AccessDeniedError: The text names all that is missing.
    """
    settings = read_settings(arguments.source)
    connections = Connections(settings)
    with closing(settings.connect()) as connection:
        values = global_variables(connection)
        _print("server", f"{settings.address}, {values.get('version', '')}")
        # Before what a server without a log, or an account without privileges, cannot answer.
        setup.check_setup(connection)
        connections.check(connection)
        identity = queries.identify(connection)
        logs = queries.binary_logs(connection)
        _print("identity", str(identity))
        _print("log", f"{len(logs)} files, {sum(log.size for log in logs)} bytes")
        _print("oldest", str(queries.first_position(connection)))
        _print("end", str(queries.log_end(connection)))
        _print("executed", queries.gtid_executed(connection) or "-")
        _print("tables", describe_tables(connection))
    found = unlogged_foreign_keys(connections.open, lambda name, _: name not in _OWN_DATABASES)
    for key in found.unlogged:
        _print("unlogged", str(key))
    if found.unknown:
        _print("unlogged", f"not known, or not all: {found.unknown}")
    _print("capture", "ready")


def _print(name: str, value: str) -> None:
    sys.stdout.write(f"{name:<10}{value}\n")
