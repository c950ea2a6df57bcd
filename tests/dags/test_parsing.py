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
bag = DagBag(sys.argv[1])
print(json.dumps({
    "errors": {str(file): text for file, text in bag.import_errors.items()},
    "dags": {
        name: {task.task_id: sorted(task.upstream_task_ids) for task in dag.tasks}
        for name, dag in bag.dags.items()
    },
    "seconds": sum(each.duration.total_seconds() for each in bag.dagbag_stats),
    "heavy": sorted({"numpy", "pandas", "pyarrow", "pyspark", "s3fs"} & sys.modules.keys()),
}))
"""


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("airflow")


def read_dags(folder: Path, home: Path) -> Any:
    environment = os.environ | {
        "AIRFLOW_HOME": str(home),
        "AIRFLOW__CORE__LOAD_EXAMPLES": "False",
        "AIRFLOW__LOGGING__LOGGING_LEVEL": "ERROR",
    }
    run = subprocess.run(
        [sys.executable, "-c", READ, folder],
        capture_output=True,
        text=True,
        env=environment,
        check=True,
    )
    return json.loads(run.stdout.splitlines()[-1])


@pytest.mark.parametrize("folder", FOLDERS)
def test_dags_are_parsed_without_the_engine(folder: str, home: Path) -> None:
    read = read_dags(ROOT / folder, home)

    assert read["errors"] == {}
    assert read["dags"]
    assert read["heavy"] == []
    assert read["seconds"] < 20


def test_every_whole_dag_of_the_pages_is_parsed(home: Path, tmp_path: Path) -> None:
    """A block of Python that imports something and makes a DAG is to be copied as it is."""
    for page in (ROOT / "docs").glob("*.md"):
        text = page.read_text(encoding="utf-8")
        blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
        for number, block in enumerate(blocks):
            is_whole = re.match("from|import", block) and re.search(r"(DAG|_dag)\(", block)
            if is_whole and "providers.slack" not in block:
                folder = tmp_path / f"{page.stem}-{number}"
                folder.mkdir()
                (folder / "dag.py").write_text(block, encoding="utf-8")

    read = read_dags(tmp_path, home)

    assert read["errors"] == {}
    assert {"binlog_to_lake", "shop_to_lake", "shop_cleanup", "shop_maintenance"} <= {*read["dags"]}


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


def test_the_triggerer_loads_no_numpy() -> None:
    load = "import sys; from importlib import import_module"
    check = """
for kind in ["triggers", "hooks", "sensors"]:
    import_module(f"airflow_provider_binlog.{kind}.binlog")
    assert not {"numpy", "pyarrow", "pyspark"} & sys.modules.keys(), kind
"""

    subprocess.run([sys.executable, "-c", f"{load}\n{check}"], check=True)
