"""The pages: what each shows, read from Airflow as one person, from staged files and servers.

A page waits for some seconds at most. What has no answer by then is shown as such, and is there at
the next look, since it is read on.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from typing import Any, TypeVar
from urllib.parse import quote, urlsplit

from airflow_provider_binlog.checkpoint import KEY_PREFIX, Checkpoint, checkpoint_key
from airflow_provider_binlog.errors import BinlogError, CheckpointError, ConfigurationError
from airflow_provider_binlog.hooks.tasks import VARIABLE_DESCRIPTION, read_dag, read_run
from airflow_provider_binlog.names import read_table_name
from airflow_provider_binlog.plugins import staged
from airflow_provider_binlog.plugins.airflow_api import AirflowApi, AirflowRefusedError
from airflow_provider_binlog.plugins.charts import chart_of_lag, chart_of_rows, time_line
from airflow_provider_binlog.plugins.logs import (
    find_anchor,
    open_log,
    read_events,
    read_server_lag,
)
from airflow_provider_binlog.plugins.readings import Reading, Readings
from airflow_provider_binlog.plugins.rendering import render
from airflow_provider_binlog.plugins.sources import (
    OPERATORS,
    SNAPSHOT,
    STATES,
    Source,
    TaskRun,
    find_sources,
)
from airflow_provider_binlog.position import parse_position
from airflow_provider_binlog.sources.lag import Lag
from airflow_provider_binlog.status.ranges import read_time
from airflow_provider_binlog.status.source import SourceStatus
from airflow_provider_binlog.status.tables import State, TableStatus

_Value = TypeVar("_Value")

_RUNS_PAGES = 5
_SOURCES_MAX = 100
_TABLES_PER_PAGE = 100
_RANGES = 60
_ENTRIES = 40

_KEPT_SECONDS = 8.0
_KEPT_SERVER_SECONDS = 15.0
_WAITED_SECONDS = 6.0
_WAITED_FOR_ALL_SECONDS = 3.0

_readings = Readings()

_TASKS = "/api/v2/dags/{}/dagRuns/~/taskInstances"


@dataclass(frozen=True)
class SourceRow:
    """A line of the list of sources."""

    source: Source
    status: Reading[SourceStatus]
    lag: Reading[Lag]
    saved_by: str = ""


@dataclass(frozen=True)
class CheckpointView:
    """The checkpoint as a person sees it.

    Attributes:
        saved: None if there is none, or it cannot be seen or read.
        text: The Variable's value; None if there is none.
        problem: Why it cannot be seen or read; empty if it can.
    """

    saved: Checkpoint | None = None
    text: str | None = None
    problem: str = ""

    @property
    def is_visible(self) -> bool:
        """Whether the person may see it, or that there is none."""
        return self.text is not None or not self.problem

    @property
    def run(self) -> tuple[str, str, str] | None:
        """The run that saved it; None if a person did."""
        return None if self.saved is None else read_run(self.saved.saved_by)

    @property
    def saved_at(self) -> datetime | None:
        """When it was saved."""
        return None if self.saved is None else read_time(self.saved.saved_at)


@dataclass(frozen=True)
class Found:
    """A source of one DAG, what Airflow says of it, and what the person may do.

    Attributes:
        is_paused: Whether the DAG is.
        running: Ids of the DAG's runs that have begun to work, and may move the checkpoint; one
            whose sensor waits may not.
        may_act: Whether the person may trigger the DAG.
    """

    source: Source
    checkpoint: CheckpointView
    is_paused: bool
    running: frozenset[str]
    may_act: bool


class Pages:
    """The pages for one person."""

    def __init__(
        self, api: AirflowApi, person: str, may_act: Callable[[str], Awaitable[bool]]
    ) -> None:
        self._api = api
        self._person = person
        self._may_act = may_act

    # --------------------------------------------------------------- the list of sources

    async def sources(self, search: str) -> str:
        """Return the list of the sources that the person may see."""
        runs, variables = await asyncio.gather(
            self._list_runs("~", pages=_RUNS_PAGES), self._list_checkpoints()
        )
        found = find_sources(runs)
        known = {source.name for source in found}
        # Of sources whose tasks ran long ago, their DAGs are named by the checkpoint.
        missing = {
            name: view.saved.saved_by
            for name, view in (variables or {}).items()
            if name not in known and view.saved is not None
        }
        dags = dict.fromkeys(read_dag(run) for run in missing.values())
        older = await asyncio.gather(
            *(self._maybe_list_runs(dag_id) for dag_id in list(dags)[:_SOURCES_MAX] if dag_id)
        )
        found = find_sources([*runs, *(run for runs_of_dag in older for run in runs_of_dag)])
        known = {source.name for source in found}
        found += [Source(name=name) for name in missing if name not in known]
        chosen = [source for source in found if search.casefold() in source.name.casefold()]
        shown = sorted(chosen, key=lambda source: source.name)[:_SOURCES_MAX]
        rows = await asyncio.gather(*(self._read_row(source, missing) for source in shown))
        return render(
            "sources.html",
            rows=rows,
            search=search,
            count=len(chosen),
            total=len(found),
            sees_variables=variables is not None,
            refresh=_refresh_seconds(
                *(reading for row in rows for reading in (row.status, row.lag))
            ),
        )

    async def _list_runs(
        self, dag_id: str, *, pages: int = 1, operators: Sequence[str] = OPERATORS
    ) -> list[TaskRun]:
        """Return the newest runs of tasks of a DAG, or with `~` of all that the person may see."""
        found = await self._api.list_newest(
            "task_instances",
            _TASKS.format(quote(dag_id, safe="~")),
            pages=pages,
            operator=operators,
            state=STATES,
            order_by="-start_date",
        )
        return [TaskRun.read(value) for value in found]

    async def _maybe_list_runs(self, dag_id: str) -> list[TaskRun]:
        try:
            return await self._list_runs(dag_id)
        except AirflowRefusedError:
            return []

    async def _list_checkpoints(self) -> dict[str, CheckpointView] | None:
        """Return the checkpoints by their sources' names; None if the person may not see them."""
        try:
            found = await self._api.list_newest(
                "variables",
                "/api/v2/variables",
                pages=_RUNS_PAGES,
                variable_key_prefix_pattern=KEY_PREFIX,
            )
        except AirflowRefusedError as error:
            if error.status == 403:
                return None
            raise
        return {
            value["key"].removeprefix(KEY_PREFIX): _read_checkpoint(value)
            for value in found
            if value["key"].startswith(KEY_PREFIX)
        }

    async def _read_row(self, source: Source, saved_by: dict[str, str]) -> SourceRow:
        if not source.staging_path:
            return SourceRow(source, Reading(), Reading(), saved_by.get(source.name, ""))
        status = await self._read_status(source, 1, _WAITED_FOR_ALL_SECONDS)
        lag = await self._read_lag(source, status, _WAITED_FOR_ALL_SECONDS)
        return SourceRow(source, status, lag)

    # --------------------------------------------------------------- one source

    async def source(
        self,
        dag_id: str,
        name: str,
        *,
        search: str,
        state: str,
        page: int,
        triggered: str,
    ) -> str:
        """Return the page of a source."""
        found = await self._find(dag_id, name)
        source = found.source
        status, merges = await asyncio.gather(
            self._read_status(source, _RANGES, _WAITED_SECONDS), self._read_merges(source)
        )
        lag = await self._read_lag(source, status, _WAITED_SECONDS)
        value = status.value
        tables = _choose(value.tables if value else (), search, state)
        pages = max(1, -(-len(tables) // _TABLES_PER_PAGE))
        page = min(max(page, 1), pages)
        first = (page - 1) * _TABLES_PER_PAGE
        runs = merges.value or ()
        return render(
            "source.html",
            found=found,
            source=source,
            status=status,
            lag=lag,
            merges=merges,
            tables=tables[first : first + _TABLES_PER_PAGE],
            tables_chosen=len(tables),
            states=list(State),
            search=search,
            state=state,
            page=page,
            pages=pages,
            triggered=triggered if any(c.isalnum() for c in triggered) else "",
            entries=_entries(value, runs),
            rows_chart=chart_of_rows(value.ranges) if value else None,
            lag_chart=chart_of_lag(value.ranges, value.published) if value else None,
            time_line=time_line(source.runs, datetime.now(UTC)),
            refresh=_refresh_seconds(status, merges, lag),
        )

    async def _find(self, dag_id: str, name: str) -> Found:
        """Return a source of a DAG that the person may see.

        Raises:
            AirflowRefusedError: There is none.
        """
        dag_path = f"/api/v2/dags/{quote(dag_id, safe='')}"
        runs, reads, checkpoint, dag, running, may_act = await asyncio.gather(
            self._list_runs(dag_id),
            self._list_runs(dag_id, operators=(SNAPSHOT,)),
            self._find_checkpoint(name),
            self._api.get(dag_path),
            self._api.list_newest("dag_runs", f"{dag_path}/dagRuns", state="running"),
            self._may_act(dag_id),
        )
        sources = [source for source in find_sources([*runs, *reads]) if source.name == name]
        if not sources:
            raise AirflowRefusedError(
                404, f"No task of {dag_id} that ran lately is one of the source {name}."
            )
        begun = {run.run_id for run in (*runs, *reads)}
        names = frozenset(run["dag_run_id"] for run in running) & begun
        return Found(sources[0], checkpoint, dag["is_paused"], names, may_act)

    async def _find_checkpoint(self, name: str) -> CheckpointView:
        path = f"/api/v2/variables/{quote(checkpoint_key(name), safe='')}"
        try:
            return _read_checkpoint(await self._api.get(path))
        except AirflowRefusedError as error:
            if error.status == 404:
                return CheckpointView()
            if error.status == 403:
                return CheckpointView(problem="you may not see Variables")
            raise

    async def _read_status(
        self, source: Source, ranges: int, seconds: float
    ) -> Reading[SourceStatus]:
        return await _readings.get(
            ("status", source.staging_path, source.name, ranges),
            _origin(source.staging_path),
            partial(staged.read_source, source, ranges, ranges if ranges > 1 else 0),
            seconds_kept=_KEPT_SECONDS,
            seconds_waited=seconds,
        )

    async def _read_merges(self, source: Source) -> Reading[tuple[TaskRun, ...]]:
        newest = tuple((run.run_id, run.task_id, run.state) for run in source.merges[:1])
        return await _readings.get(
            ("merges", source.staging_path, source.name, newest),
            _origin(source.staging_path),
            partial(staged.read_merges, source),
            seconds_kept=_KEPT_SECONDS,
            seconds_waited=_WAITED_SECONDS,
        )

    async def _read_lag(
        self, source: Source, status: Reading[SourceStatus], seconds: float
    ) -> Reading[Lag]:
        """Return the lag of the newest range; nothing without one, and for files."""
        newest = status.value.newest if status.value else None
        if newest is None or not source.conn_id:
            return Reading()
        return await _readings.get(
            ("lag", source.conn_id, newest.identity, newest.stop),
            f"connection {source.conn_id}",
            partial(read_server_lag, source.conn_id, newest.stop, newest.identity),
            seconds_kept=_KEPT_SERVER_SECONDS,
            seconds_waited=seconds,
        )

    # --------------------------------------------------------------- a manifest, events

    async def manifest(self, dag_id: str, name: str, sequence: int) -> str:
        """Return the page of a manifest."""
        found = await self._find(dag_id, name)
        read: staged.StagedManifest = await self._read(
            ("manifest", found.source.staging_path, name, sequence),
            found.source.staging_path,
            partial(staged.read_manifest, found.source, sequence),
        )
        if read.manifest is None:
            raise AirflowRefusedError(404, f"No manifest {sequence} of {name} is staged.")
        return render(
            "manifest.html",
            found=found,
            source=found.source,
            manifest=read.manifest,
            oldest=read.oldest,
            newest=read.newest,
            run=read_run(read.manifest.created_by),
        )

    async def events(self, dag_id: str, name: str, position: str) -> str:
        """Return the page of the events around a position."""
        found = await self._find(dag_id, name)
        source = found.source
        status = await self._read_status(source, _RANGES, _WAITED_SECONDS)
        ranges = status.value.ranges if status.value else ()
        at = parse_position(position)
        boundaries = [boundary for summary in ranges for boundary in (summary.start, summary.stop)]
        files = _find_files(source)

        def read() -> Any:
            return read_events(open_log(source.conn_id, files), at, find_anchor(at, boundaries))

        events = await self._read(
            ("events", source.staging_path, name, at), f"connection {source.conn_id}", read
        )
        return render("events.html", found=found, source=source, position=at, events=events)

    async def _read(self, key: Hashable, origin: str, read: Callable[[], _Value]) -> _Value:
        """Return what a page consists of.

        Raises:
            BinlogError: It cannot be read, or not in time.
        """
        reading: Reading[_Value] = await _readings.get(
            key, _origin(origin), read, seconds_kept=_KEPT_SECONDS, seconds_waited=15.0
        )
        # It may be large, and is seldom looked at twice.
        _readings.drop(key)
        if isinstance(reading.error, BinlogError):
            raise reading.error
        if reading.problem:
            raise BinlogError(reading.problem)
        if reading.is_pending or reading.value is None:
            raise BinlogError("there is no answer yet: load the page again")
        return reading.value

    # --------------------------------------------------------------- actions

    async def confirm_reload(self, dag_id: str, name: str, tables: Sequence[str]) -> str:
        """Return the page that asks whether to reload tables."""
        found = await self._find(dag_id, name)
        return render(
            "reload.html",
            found=found,
            source=found.source,
            tables=_check_tables(tables),
            conf=json.dumps({"reload": list(tables)}, ensure_ascii=False),
        )

    async def reload(self, dag_id: str, name: str, tables: Sequence[str]) -> str:
        """Trigger a run that reloads tables, as the person; return its id."""
        found = await self._find(dag_id, name)
        if not found.source.reloads:
            raise ConfigurationError("the DAG reloads no tables that a run is triggered for")
        run = await self._api.post(
            f"/api/v2/dags/{quote(dag_id, safe='')}/dagRuns",
            {"logical_date": None, "conf": {"reload": _check_tables(tables)}},
        )
        return str(run["dag_run_id"])

    async def confirm_checkpoint(self, dag_id: str, name: str, sequence: int) -> str:
        """Return the page that asks whether to set the checkpoint to the stop of a manifest."""
        found = await self._find(dag_id, name)
        new = await self._find_new(found.source, sequence)
        return render(
            "checkpoint.html",
            found=found,
            source=found.source,
            new=new,
        )

    async def set_checkpoint(self, dag_id: str, name: str, sequence: int, expected: str) -> None:
        """Save a checkpoint, as the person.

        Raises:
            CheckpointError: A run is running, or it is another one than the person saw.
            AirflowRefusedError: The person may not change Variables.
        """
        found = await self._find(dag_id, name)
        if found.checkpoint.problem:
            raise AirflowRefusedError(403, found.checkpoint.problem)
        if found.running:
            raise CheckpointError(
                "a run may move the checkpoint now: wait for its end, and pause the DAG",
                running=", ".join(sorted(found.running)),
            )
        if (found.checkpoint.text or "") != expected:
            raise CheckpointError("the checkpoint was moved since you saw it: look at it again")
        key = checkpoint_key(name)
        text = (await self._find_new(found.source, sequence)).encode()
        body = {"key": key, "value": text, "description": VARIABLE_DESCRIPTION}
        if found.checkpoint.text is None:
            await self._api.post("/api/v2/variables", body)
        else:
            await self._api.patch(f"/api/v2/variables/{quote(key, safe='')}", body)
        saved = await self._find_checkpoint(name)
        if saved.saved is None or not saved.saved.same_position(Checkpoint.decode(text)):
            raise CheckpointError(
                "the checkpoint was saved but reads differently: a run saved one meanwhile, or "
                "one that Airflow reads first hides it",
                key=key,
            )

    async def _find_new(self, source: Source, sequence: int) -> Checkpoint:
        return await self._read(
            ("checkpoint", source.staging_path, source.name, sequence, self._person),
            source.staging_path,
            partial(staged.find_checkpoint, source, sequence, self._person),
        )


def _refresh_seconds(*readings: Reading[Any]) -> int:
    """Return when a page is looked at again: soon, if it lacks something."""
    return 2 if any(reading.is_pending for reading in readings) else 10


def _origin(location: str) -> str:
    parts = urlsplit(location)
    return f"{parts.scheme}://{parts.netloc}" if parts.netloc else location


def _read_checkpoint(variable: dict[str, Any]) -> CheckpointView:
    text = str(variable["value"])
    try:
        return CheckpointView(Checkpoint.decode(text), text)
    except CheckpointError as error:
        return CheckpointView(None, text, str(error))


def _find_files(source: Source) -> Any:
    if source.conn_id:
        return None
    given = (run.fields.get("source") for run in source.runs)
    return next((named["files"] for named in given if isinstance(named, dict)), None)


def _choose(tables: Sequence[TableStatus], search: str, state: str) -> list[TableStatus]:
    return [
        table
        for table in tables
        if search.casefold() in table.text.casefold() and state in ("", table.state)
    ]


def _check_tables(tables: Sequence[str]) -> list[str]:
    """Return names of tables, each once.

    Raises:
        ConfigurationError: There is none, or one is no name.
    """
    if not tables:
        raise ConfigurationError("choose a table")
    for table in tables:
        read_table_name(table)
    return list(dict.fromkeys(tables))


@dataclass(frozen=True)
class Entry:
    """An entry of the history of a source: a range, a snapshot or a merge."""

    time: datetime
    kind: str
    value: Any
    run: tuple[str, str, str] | None


_NEVER = datetime.min.replace(tzinfo=UTC)


def _entries(status: SourceStatus | None, merges: Sequence[TaskRun]) -> list[Entry]:
    """Return what happened, the newest first."""
    entries = [
        Entry(
            run.ended or run.started or _NEVER, "merge", run, (run.dag_id, run.run_id, run.task_id)
        )
        for run in merges
        if run.merge is not None or run.is_running or run.state == "failed"
    ]
    if status is not None:
        entries += [
            Entry(summary.created_at, "range", summary, read_run(summary.created_by))
            for summary in status.ranges
        ]
        entries += [
            Entry(load.completed_at, "load", load, read_run(load.created_by))
            for load in status.loads
            if load.completed_at is not None
        ]
    return sorted(entries, key=lambda entry: entry.time, reverse=True)[:_ENTRIES]
