"""Which sources there are, by the tasks that Airflow shows to a person.

What a task was run with is in its rendered fields: source, staging path and lake need not be noted
anywhere else. A checkpoint's Variable names the run that saved it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from airflow_provider_binlog.sources.binlog_source import DEFAULT_CONN_ID
from airflow_provider_binlog.status.merges import MergeSummary
from airflow_provider_binlog.status.ranges import read_time

CAPTURE = ("BinlogExtractOperator", "BinlogFollowOperator", "BinlogPlanOperator")
PLAN = "BinlogSnapshotPlanOperator"
SNAPSHOT = "BinlogSnapshotOperator"
MERGE = "BinlogMergeOperator"
OPERATORS = (*CAPTURE, PLAN, MERGE)
"""Of tasks that run a few times in a run; those that read snapshots may be many."""

STATES = ("success", "failed", "running", "up_for_retry")
"""Of tasks that have rendered fields, as a rule; those that are skipped do not."""

RUNNING = frozenset({"running", "queued", "scheduled", "up_for_retry", "deferred", "restarting"})


@dataclass(frozen=True, kw_only=True)
class TaskRun:
    """One run of a task, as Airflow's API shows it."""

    dag_id: str
    run_id: str
    task_id: str
    map_index: int
    operator: str
    state: str
    started: datetime | None
    ended: datetime | None
    fields: Mapping[str, Any] = field(repr=False)
    merge: MergeSummary | None = None

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> TaskRun:
        """Read a task instance of the API."""
        return cls(
            dag_id=value["dag_id"],
            run_id=value["dag_run_id"],
            task_id=value["task_id"],
            map_index=value["map_index"],
            operator=value["operator"] or "",
            state=value["state"] or "scheduled",
            started=_time(value["start_date"]),
            ended=_time(value["end_date"]),
            fields=value["rendered_fields"] or {},
        )

    @property
    def is_running(self) -> bool:
        """Whether it has not ended."""
        return self.state in RUNNING

    @property
    def source(self) -> tuple[str, str]:
        """Its staging path, and the name of its source; empty if its fields do not say."""
        source, staged = self.fields.get("source"), self.fields.get("staged")
        if isinstance(source, Mapping):
            return _text(self.fields, "staging_path"), _text(source, "name")
        if isinstance(staged, Mapping):
            return _text(staged, "staging_path"), _text(staged, "source")
        return "", ""


def _text(values: Mapping[str, Any], name: str) -> str:
    value = values.get(name)
    return value if isinstance(value, str) else ""


def _time(text: str | None) -> datetime | None:
    return None if text is None else read_time(text)


@dataclass(frozen=True, kw_only=True)
class Source:
    """A source that a person may see.

    Attributes:
        name: Its name.
        staging_path: Empty if no task says.
        dags: The DAGs with tasks of it, those that capture it first.
        conn_id: The connection of its server; empty where it reads files, or no task says.
        reloads: Whether a run of one of its DAGs reloads the tables that it is triggered for.
        runs: The newest runs of its tasks, the newest first.
    """

    name: str
    staging_path: str = ""
    dags: tuple[str, ...] = ()
    conn_id: str = ""
    reloads: bool = False
    runs: tuple[TaskRun, ...] = ()

    @property
    def dag_id(self) -> str:
        """The DAG that captures it."""
        return self.dags[0] if self.dags else ""

    @property
    def merges(self) -> tuple[TaskRun, ...]:
        """The newest merges, the newest first."""
        return tuple(run for run in self.runs if run.operator == MERGE)


def find_sources(task_runs: Iterable[TaskRun]) -> list[Source]:
    """Return the sources of some runs of tasks, the newest run first, in the order of their names.

    A merge whose fields do not name its source, since they are too long to be kept, is one of the
    only source that its DAG has.
    """
    found: dict[tuple[str, str], Source] = {}
    unnamed: list[TaskRun] = []
    for run in task_runs:
        staging_path, name = run.source
        if not name or not staging_path:
            unnamed.append(run)
            continue
        key = staging_path.rstrip("/"), name
        known = found.get(key, Source(name=name, staging_path=staging_path))
        found[key] = _with_run(known, run)
    for run in unnamed:
        of_dag = [key for key, source in found.items() if run.dag_id in source.dags]
        if len(of_dag) == 1:
            known = found[of_dag[0]]
            found[of_dag[0]] = replace(known, runs=(*known.runs, run))
    ordered = (
        replace(
            source,
            runs=tuple(sorted(source.runs, key=lambda run: str(run.started), reverse=True)),
        )
        for source in found.values()
    )
    return sorted(ordered, key=lambda source: (source.name, source.staging_path))


def _with_run(source: Source, run: TaskRun) -> Source:
    dags = dict.fromkeys(source.dags)
    if run.operator in CAPTURE:
        dags = {run.dag_id: None} | dags
    else:
        dags[run.dag_id] = None
    given = run.fields.get("source")
    conn_id = source.conn_id
    if isinstance(given, Mapping) and not conn_id and given.get("files") is None:
        conn_id = _text(given, "conn_id") or DEFAULT_CONN_ID
    return replace(
        source,
        dags=tuple(dags),
        conn_id=conn_id,
        reloads=source.reloads or (run.operator == PLAN and "reload" in run.fields),
        runs=(*source.runs, run),
    )
