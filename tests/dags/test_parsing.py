"""Every DAG that we ship is parsed without errors, quickly, and without the engine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
FOLDERS = ["airflow_provider_binlog/example_dags", "dags"]

READ = """
import json, sys
from airflow.dag_processing.dagbag import DagBag
read = {}
for folder in sys.argv[1:]:
    bag = DagBag(folder)
    read[folder] = {
        "errors": {str(file): text for file, text in bag.import_errors.items()},
        "dags": sorted(bag.dags),
        "seconds": sum(each.duration.total_seconds() for each in bag.dagbag_stats),
        "heavy": sorted({"numpy", "pandas", "pyarrow", "pyspark", "s3fs"} & sys.modules.keys()),
    }
print(json.dumps(read))
"""


@pytest.fixture(scope="module")
def read(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What one process has read in each folder, and of the DAGs of the pages, which are `docs`."""
    pages = tmp_path_factory.mktemp("docs")
    copy_whole_dags(pages)
    environment = os.environ | {
        "AIRFLOW_HOME": str(tmp_path_factory.mktemp("airflow")),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    run = subprocess.run(
        [sys.executable, "-c", READ, *(ROOT / folder for folder in FOLDERS), pages],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return dict(
        zip([*FOLDERS, "docs"], json.loads(run.stdout.splitlines()[-1]).values(), strict=True)
    )


def copy_whole_dags(to: Path) -> None:
    """A block of Python that imports something and makes a DAG is to be copied as it is."""
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for number, block in enumerate(blocks):
            is_whole = re.match("from|import", block) and re.search(r"(DAG|_dag)\(", block)
            if is_whole and "providers.slack" not in block:
                folder = to / f"{page.stem}-{number}"
                folder.mkdir()
                (folder / "dag.py").write_text(block, encoding="utf-8")


@pytest.mark.parametrize("folder", FOLDERS)
def test_dags_are_parsed_without_the_engine(folder: str, read: dict[str, Any]) -> None:
    found = read[folder]

    assert found["errors"] == {}
    assert found["dags"]
    assert found["heavy"] == []
    assert found["seconds"] < 20


def test_every_whole_dag_of_the_pages_is_parsed(read: dict[str, Any]) -> None:
    found = read["docs"]

    assert found["errors"] == {}
    assert {"binlog_to_lake", "shop_to_lake", "shop_cleanup", "shop_maintenance"} <= {
        *found["dags"]
    }


def test_the_example_is_wired_by_its_arguments() -> None:
    from airflow_provider_binlog.example_dags.binlog_to_delta import merge

    dag = merge.dag

    assert dag is not None
    assert {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks} == {
        "changes": [],
        "stage": ["changes"],
        "merge": ["stage"],
        "checkpoint": ["merge", "stage"],
    }


def test_the_tables_of_a_reload_stay_a_list() -> None:
    from airflow_provider_binlog.example_dags.binlog_reload import approve

    dag: Any = approve.dag
    trigger = dag.get_task("reload")
    trigger.render_template_fields({"params": {"reload": ["shop.orders", "shop.items"]}})

    assert trigger.conf == {"reload": ["shop.orders", "shop.items"]}
