"""`status`: where a server's log stands, and what it lacks for capture."""

from __future__ import annotations

import sys
from contextlib import closing
from typing import TYPE_CHECKING

from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.transport import questions
from airflow_provider_binlog.transport.foreign_keys import unlogged_foreign_keys

if TYPE_CHECKING:
    import argparse


def run(arguments: argparse.Namespace) -> None:
    """Print what is found, then raise what is wrong, which names all that is missing."""
    settings = read_settings(arguments.source)
    with closing(settings.connect()) as connection:
        identity = questions.identify(connection)
        values = questions.settings(connection)
        logs = questions.binary_logs(connection)
        lines = {
            "server": f"{settings.place}, {values.get('version', '')}",
            "identity": f"{identity.flavor.value} {identity.server}",
            "log": f"{len(logs)} files, {sum(log.size for log in logs)} bytes",
            "oldest": str(questions.first_position(connection)),
            "end": str(questions.log_end(connection)),
            "executed": questions.gtid_executed(connection) or "-",
        }
        for name, value in lines.items():
            sys.stdout.write(f"{name:<10}{value}\n")
        for key in unlogged_foreign_keys(connection, lambda *_: True):
            sys.stdout.write(f"{'unlogged':<10}{key}\n")
        questions.check_setup(connection)
    sys.stdout.write(f"{'capture':<10}ready\n")
