"""What Airflow wrote down about a run of the DAG."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.services.progress import say

if TYPE_CHECKING:
    from pathlib import Path

TASKS = ("changes", "plan", "snapshot", "stage", "merge", "checkpoint", "tables_live")
_ENDS = ("success", "skipped", "failed", "upstream_failed")


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

    @property
    def failed(self) -> list[str]:
        """The tasks that failed."""
        return [task.name for task in self.tasks if task.state == "failed"]

    def table(self, name: str) -> dict[str, Any]:
        """Return what the merge reports of a table, nothing where it had nothing to do."""
        tables = self.merged["tables"] if self.merged else []
        return next((each for each in tables if each["table"] == name), {})


def read_run(home: Path, run_id: str) -> Run:
    """Return a run from Airflow's database in its home."""
    with closing(sqlite3.connect(home / "airflow.db")) as database:
        tasks = _read_tasks(database, run_id)
        merged = database.execute(
            "SELECT value FROM xcom"
            " WHERE run_id = ? AND task_id = 'merge' AND key = 'return_value'",
            (run_id,),
        ).fetchone()
    return Run(tuple(tasks[name] for name in TASKS), json.loads(merged[0]) if merged else None)


class Watch:
    """Says how each task of a run ended, as soon as it did."""

    def __init__(self, home: Path) -> None:
        """Watch the run that comes next."""
        self._database = home / "airflow.db"
        self._said: set[str] = set()
        self._before = self._newest_run()

    def report(self) -> None:
        """Say what has ended since the last report."""
        run_id = self._newest_run()
        if run_id is None or run_id == self._before:
            return
        with closing(sqlite3.connect(self._database)) as database:
            tasks = _read_tasks(database, run_id)
        for name in TASKS:
            task = tasks.get(name)
            if task is None or name in self._said or task.state not in _ENDS:
                continue
            self._said.add(name)
            say(f"{name}: {f'{task.seconds:.1f} s' if task.state == 'success' else task.state}")

    def _newest_run(self) -> str | None:
        with closing(sqlite3.connect(self._database)) as database:
            newest = database.execute("SELECT run_id FROM dag_run ORDER BY id DESC LIMIT 1")
            found = newest.fetchone()
        return found[0] if found else None


def _read_tasks(database: sqlite3.Connection, run_id: str) -> dict[str, TaskRun]:
    rows = database.execute(
        "SELECT task_id, state, (julianday(end_date) - julianday(start_date)) * 86400"
        " FROM task_instance WHERE run_id = ?",
        (run_id,),
    )
    return {name: TaskRun(name, state, seconds or 0.0) for name, state, seconds in rows}
