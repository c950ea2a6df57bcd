"""The merge into PostgreSQL as the operator submits it: its password comes to light nowhere."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog import BinlogMergeOperator
from airflow_provider_binlog.errors import ConfigurationError
from tests.support.secrets import files_with, watched_processes
from tests.unit.spark.staged_changes import INT, TEXT

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.spark import SparkEnvironment
    from tests.unit.spark.database_workplace import DatabaseWorkplace


class Instance:
    """A task instance."""

    dag_id, run_id, task_id, map_index, try_number = "d", "r", "merge", -1, 1


def test_the_operator_merges_and_shows_no_password(
    database_workplace: DatabaseWorkplace,
    spark_variables: SparkEnvironment,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    workplace, password = database_workplace, database_workplace.server.password
    source = workplace.new_source()
    table = source.create(workplace.database, "orders", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="one")
    source.commit()
    connections = {
        "WAREHOUSE": workplace.server.connection,
        "SPARK_DEFAULT": {"conn_type": "spark", "host": "local[2]"},
    }
    for name, value in connections.items():
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", json.dumps(value))
    events = tmp_path / "events"
    events.mkdir()
    logged = {"spark.eventLog.enabled": "true", "spark.eventLog.dir": f"file://{events}"}
    operator = BinlogMergeOperator(
        task_id="merge",
        staged={"source": workplace.source, "staging_path": f"{workplace.root}/staging"},
        format="postgresql",
        lake="warehouse",
        conf=spark_variables.conf | logged,
    )
    context: Any = {"ti": Instance()}

    with watched_processes(password) as shown:
        report = operator.execute(context)

    assert [each["status"] for each in report["tables"]] == ["merged"]
    workplace.check(table)
    assert shown == []
    assert files_with(tmp_path, password) == []
    assert [*events.iterdir()]
    assert password not in json.dumps(report) + "".join(capfd.readouterr())


@pytest.mark.parametrize(
    ("fields", "says"),
    [({"schema": None}, "schema"), ({"extra": {"sslmod": "require"}}, "sslmod")],
)
def test_a_connection_that_cannot_be_used_is_refused(
    fields: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from airflow_provider_binlog.hooks.binlog import read_postgres_settings

    value = {"conn_type": "postgres", "host": "h", "schema": "s", "login": "l", "password": "p"}
    monkeypatch.setenv("AIRFLOW_CONN_WAREHOUSE", json.dumps(value | fields))

    with pytest.raises(ConfigurationError, match=says) as refused:
        read_postgres_settings("warehouse")
    assert "p" not in refused.value.context.values()
