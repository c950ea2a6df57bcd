"""What to look at when the demo is done."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from dags.demo.surroundings import FOLDER
from tests.services.processes import ROOT

if TYPE_CHECKING:
    from pathlib import Path

    from dags.demo.surroundings import Surroundings


def what_next(around: Surroundings) -> str:
    """Return places and commands, as they work from the project's folder."""
    python = ".venv/bin/python -m"
    tables = around.files / "lake" / around.choice.database
    if around.postgresql is not None:
        tables = around.postgresql.folder
    staged = next((part for part in around.parts if part.parent.name == "orders"), around.staging)
    changes = f"SELECT _change_type, count(*) FROM parquet.`{around.staging}/*/orders` GROUP BY 1"
    lines = [
        "What to look at next:",
        f"  staged Parquet    {_short(staged)}",
        f"  its manifest      {_short(around.manifests[0])}",
        f"  {around.choice.target} tables".ljust(20) + _short(tables),
        "Query the tables, or what is staged:",
        f"  {python} dags.demo sql 'SELECT status, count(*) FROM orders GROUP BY status'",
        f"  {python} dags.demo sql '{changes}'",
    ]
    if around.choice.dsn:
        return "\n".join(
            [*lines, "Open Airflow on a new demo of your server:", "  make ui SERVER_DSN=…"]
        )
    log = _short(min((FOLDER / "server" / "data").glob("binlog.0*")))
    only = f"--table {around.choice.database}.reviews"
    lines += [
        "Read the log itself:",
        f"  {python} airflow_provider_binlog events {log} | head",
        f"  {python} airflow_provider_binlog rows {log} {only} | head -3",
        "Open Airflow on it, with the DAG every minute and writes trickling in:",
        "  make ui",
    ]
    return "\n".join(lines)


def _short(path: Path) -> str:
    return os.path.relpath(path, ROOT)
