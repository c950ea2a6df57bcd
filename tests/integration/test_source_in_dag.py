"""A BinlogSource in a DAG that Airflow runs: templated, mapped, and as plain values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.header import EventType
from tests.support import builder
from tests.unit.cli.test_commands import NUMBER, table_map

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from tests.fixtures.airflow import Airflow

DAG = """
from airflow.sdk import DAG, task
from airflow_provider_binlog import BinlogCheckpointOperator, BinlogExtractOperator, BinlogSource

FOLDER = "{folder}"

@task
def sources():
    return [{{"name": "plain", "files": FOLDER + "/logs/", "start": "earliest"}}]

def stage(task_id):
    return BinlogExtractOperator.partial(
        task_id=task_id, staging_path=FOLDER + "/staging", tables=["shop.*"]
    )

with DAG("sources", schedule=None, params={{"kind": "logs"}}):
    one = BinlogExtractOperator(
        task_id="one",
        source=BinlogSource("{{{{ dag.dag_id }}}}", files=FOLDER + "/{{{{ params.kind }}}}/",
                            start="earliest"),
        staging_path=FOLDER + "/staging",
        tables=["shop.*"],
    )
    BinlogCheckpointOperator(task_id="save", staged=one.output)
    stage("given").expand(
        source=[BinlogSource(name, files=FOLDER + "/logs/", start="earliest") for name in "ab"]
    )
    stage("returned").expand(source=sources())
"""


def test_a_source_is_templated_mapped_and_returned(
    create_airflow: Callable[..., Airflow], tmp_path: Path
) -> None:
    file = builder.BinlogFile()
    insert = builder.rows(EventType.WRITE_ROWS, 9, 1, builder.row_image([NUMBER]))
    file.add_transaction(1, [(EventType.TABLE_MAP, table_map()), (EventType.WRITE_ROWS, insert)])
    (tmp_path / "logs").mkdir()
    (tmp_path / "logs" / "binlog.000001").write_bytes(bytes(file))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "sources.py").write_text(DAG.format(folder=tmp_path))
    airflow = create_airflow(AIRFLOW__CORE__DAGS_FOLDER=str(tmp_path / "dags"))

    states = airflow.run_dag("sources")

    assert set(states.values()) == {"success"}, states
    assert airflow.returned("one")["source"] == "sources"
    assert airflow.returned("one")["changes"] == {"insert": 1}
    staged = sorted(path.name for path in (tmp_path / "staging").iterdir())
    assert staged == ["a", "b", "plain", "sources"]
