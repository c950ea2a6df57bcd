"""The names of the package itself, and how a BinlogSource passes through Airflow."""

from __future__ import annotations

import json
import subprocess
import sys
from datetime import UTC, datetime
from typing import Any

import pytest
from airflow.sdk import DAG
from airflow.serialization.serialized_objects import DagSerialization

import airflow_provider_binlog
from airflow_provider_binlog import (
    BinlogExtractOperator,
    BinlogPositionSensor,
    BinlogSource,
    Limits,
)

SHOP = BinlogSource("shop", start="earliest", failover="follow")


def test_every_name_is_there() -> None:
    for name in airflow_provider_binlog.__all__:
        assert getattr(airflow_provider_binlog, name).__name__ == name

    assert set(airflow_provider_binlog.__all__) <= set(dir(airflow_provider_binlog))
    with pytest.raises(AttributeError, match="no attribute 'BinlogTeapot'"):
        _ = airflow_provider_binlog.BinlogTeapot  # type: ignore[attr-defined]


@pytest.mark.parametrize(
    ("load", "absent"),
    [
        (
            "import airflow_provider_binlog",
            "airflow fsspec numpy pyarrow pymysql pyspark",
        ),
        (
            "from airflow_provider_binlog import BinlogSource, Limits, delta_conf",
            "airflow fsspec numpy pyarrow pymysql pyspark",
        ),
        (
            "from airflow_provider_binlog import *",
            "numpy pyarrow pyspark s3fs",
        ),
    ],
)
def test_only_what_is_named_is_loaded(load: str, absent: str) -> None:
    check = f"sys.exit(', '.join(sorted(set('{absent}'.split()) & sys.modules.keys())) or 0)"

    run = subprocess.run(
        [sys.executable, "-c", f"import sys; {load}; {check}"],
        capture_output=True,
        text=True,
        check=False,
    )

    assert run.stderr == ""
    assert run.returncode == 0


def make_dag(source: Any) -> DAG:
    with DAG("sources", schedule=None) as dag:
        changes = BinlogPositionSensor(task_id="changes", source=source)
        BinlogExtractOperator(
            task_id="stage",
            source=source,
            start=changes.output,
            staging_path="/s",
            tables=["*"],
            limits=Limits(part_bytes_max="8 MiB"),
        )
        BinlogExtractOperator.partial(task_id="mapped", staging_path="/s", tables=["*"]).expand(
            source=[source, BinlogSource("crm", start="now")]
        )
    return dag


def test_a_source_is_serialised_as_its_fields() -> None:
    first, second = (
        json.dumps(DagSerialization.to_dict(make_dag(source)), sort_keys=True)
        for source in (SHOP, BinlogSource("shop", start="earliest", failover="follow"))
    )

    assert first == second
    dag = DagSerialization.from_dict(json.loads(first))
    for task_id in ("changes", "stage"):
        task: Any = dag.get_task(task_id)
        assert task.source == SHOP.serialize()
    assert dag.get_task("mapped").is_mapped
    assert dag.get_task("stage").upstream_task_ids == {"changes"}


def test_its_texts_are_rendered() -> None:
    source = BinlogSource(
        "{{ shop }}", start={"file": "{{ shop }}.000001", "offset": 4}, files=["/{{ shop }}/"]
    )
    task: Any = make_dag(source).get_task("stage")
    task.start = None

    task.render_template_fields({"shop": "bazaar", "logical_date": datetime.now(UTC)})

    assert task.source == BinlogSource(
        "bazaar", start={"file": "bazaar.000001", "offset": 4}, files=["/bazaar/"]
    )
