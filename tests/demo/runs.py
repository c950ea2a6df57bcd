"""What Airflow wrote down about a run of the DAG."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

TASKS = ("changes", "stage", "merge", "checkpoint")


@dataclass(frozen=True)
class TaskRun:
    """One task of a run: its state, and how long it took."""

    name: str
    state: str
    seconds: float


@dataclass(frozen=True)
class Run:
    """One run of the DAG.

    Attributes:
        tasks: In the order of the DAG.
        merged: The merge's report; None where it was skipped.
    """

    tasks: tuple[TaskRun, ...]
    merged: dict[str, Any] | None

    @property
    def skipped(self) -> bool:
        """Whether the sensor found nothing new."""
        return all(task.state == "skipped" for task in self.tasks)

    def __str__(self) -> str:
        return ", ".join(
            f"{task.name} {task.state}"
            if task.state != "success"
            else f"{task.name} {task.seconds:.1f} s"
            for task in self.tasks
        )

    def table(self, name: str) -> dict[str, Any]:
        """Return what the merge reports of a table, nothing where it had nothing to do."""
        tables = self.merged["tables"] if self.merged else []
        return next((each for each in tables if each["table"] == name), {})


def read_run(home: Path, run_id: str) -> Run:
    """Return a run from Airflow's database in its home."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        tasks = {
            name: TaskRun(name, state, seconds or 0.0)
            for name, state, seconds in database.execute(
                "SELECT task_id, state, (julianday(end_date) - julianday(start_date)) * 86400"
                " FROM task_instance WHERE run_id = ?",
                (run_id,),
            )
        }
        merged = database.execute(
            "SELECT value FROM xcom"
            " WHERE run_id = ? AND task_id = 'merge' AND key = 'return_value'",
            (run_id,),
        ).fetchone()
    return Run(tuple(tasks[name] for name in TASKS), json.loads(merged[0]) if merged else None)
