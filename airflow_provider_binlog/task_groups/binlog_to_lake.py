"""From a server to lake tables, in one call."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.standard.operators.empty import EmptyOperator
from airflow.sdk import DAG, TaskGroup

from airflow_provider_binlog.operators.arguments import RELOAD_OF_RUN
from airflow_provider_binlog.operators.extract import (
    BinlogCheckpointOperator,
    BinlogExtractOperator,
)
from airflow_provider_binlog.operators.follow import BinlogFollowOperator
from airflow_provider_binlog.operators.merge import BinlogMergeOperator
from airflow_provider_binlog.operators.snapshot import (
    BinlogSnapshotOperator,
    BinlogSnapshotPlanOperator,
)
from airflow_provider_binlog.operators.tables_live import BinlogTablesLiveOperator
from airflow_provider_binlog.sensors.binlog import BinlogPositionSensor
from airflow_provider_binlog.sources.binlog_source import BinlogSource, LakeFormat, OnStale
from airflow_provider_binlog.table_options import TableOptions

_SHARED = {
    *("where", "lock", "chunk_bytes", "engine"),
    *("max_threads_running", "max_replica_lag", "replica_conn_ids"),
}
"""Arguments of the snapshots that the plan shares."""


def binlog_to_lake(
    source: BinlogSource,
    *,
    tables: Sequence[str],
    staging_path: str,
    format: LakeFormat,  # noqa: A002
    lake: str,
    exclude: Sequence[str] = (),
    options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
    group_id: str = "binlog_to_lake",
    prefix_group_id: bool = True,
    changes: Mapping[str, Any] | None = None,
    snapshot: Mapping[str, Any] | None = None,
    extract: Mapping[str, Any] | None = None,
    merge: Mapping[str, Any] | None = None,
    on_stale: OnStale = "fail",
    follow: timedelta | None = None,
    every: timedelta = timedelta(seconds=5),
) -> TaskGroup:
    """Add the tasks that keep lake tables equal to those of a server to the current DAG.

    ``changes``
        Skip the run unless there is anything new in the server's log, or a table to reload.
    ``plan``
        Find the tables with rows that neither the lake nor the staged log has: all that existed
        before the first run; later new ones, those that could not be followed, and those that a
        run is triggered for, with the conf ``{"reload": ["shop.orders"]}``.
    ``snapshot``
        Read these tables in mapped tasks, which are named by them, a large table in several. A
        table that fails stops nothing: this run fails, and the next one reads it.
    ``stage``
        Stage what was logged, up to now: it contains what the snapshots may have seen.
    ``merge``
        Load the snapshots, and merge the changes.
    ``checkpoint``
        Move the checkpoint.
    ``tables_live``
        Fail if a snapshot failed, or a table is not live. It is beside the group, as
        ``<group>_tables_live``: what follows the group does not wait for it.

    The DAG runs once at a time: ``max_active_runs=1``, ``catchup=False``.

    Args:
        source: The server to read.
        tables: Globs of ``database.table`` to capture and merge.
        staging_path: Where snapshots and changes are staged, as the extract operator has it.
        format: ``"delta"``, ``"iceberg"`` or ``"postgresql"``.
        lake: For Delta the folder of the tables, for Iceberg the name of the catalog, for
            PostgreSQL the id of the connection to the database.
        exclude: Globs of tables among them to leave out.
        options: :class:`~airflow_provider_binlog.TableOptions` by globs of tables.
        group_id: Names the task group.
        prefix_group_id: Whether the tasks are named ``binlog_to_lake.stage`` or ``stage``.
        changes: More arguments of the :class:`~airflow_provider_binlog.BinlogPositionSensor` by
            name: ``min_bytes``, ``max_lag``, ``deferrable``, ... It skips a run without work,
            unless ``when_nothing_new`` is ``"wait"``.
        snapshot: More arguments of the :class:`~airflow_provider_binlog.BinlogSnapshotOperator`
            by name: ``chunk_bytes``, ``pool``, ``max_active_tis_per_dagrun``, …
        extract: More arguments of the :class:`~airflow_provider_binlog.BinlogExtractOperator`
            by name.
        merge: More arguments of the :class:`~airflow_provider_binlog.BinlogMergeOperator` by name:
            ``conn_id``, ``conf``, ``packages``, …
        on_stale: Whether a table that is not live makes the task ``tables_live``, and so the run,
            ``"fail"``, or ``"warn"`` in its log.
        follow: For how long ``stage`` and ``merge`` go on, side by side: ``stage`` commits a
            manifest and moves the checkpoint every few seconds, and the job of ``merge`` merges
            it. There is no task ``checkpoint``. The schedule is ``"@continuous"``: the next run
            continues there. By default a run ends with what was logged when it started.
        every: With ``follow``, from the start of a range to that of the next one, at least.

    Returns:
        The task group, which other tasks can precede or follow.
    """
    captured: dict[str, Any] = {
        "source": source,
        "staging_path": staging_path,
        "tables": tables,
        "exclude": exclude,
        "options": options,
    }
    target: dict[str, Any] = {"format": format, "lake": lake}
    merging, reading = merge or {}, snapshot or {}
    with TaskGroup(group_id, prefix_group_id=prefix_group_id) as group:
        needs: dict[str, Any] = {
            **{name: captured[name] for name in ("staging_path", "tables", "exclude")},
            **target,
            "options": options,
            "merge_tables": merging.get("tables", ()),
            "merge_exclude": merging.get("exclude", ()),
            # Here, too, so that the sensor does not skip a run that is triggered for it.
            "reload": RELOAD_OF_RUN,
        }
        # Without changes, a run that follows waits for them where it merges them.
        idle = "skip" if follow is None else "proceed"
        waiting = {"when_nothing_new": idle, **(changes or {})}
        sensor = BinlogPositionSensor(task_id="changes", source=source, plan=needs, **waiting)
        shared = {name: reading[name] for name in _SHARED & reading.keys()}
        plan = BinlogSnapshotPlanOperator(task_id="plan", source=source, **needs, **shared)
        named = {"map_index_template": "{{ task.map_name }}", **reading}
        # Together in the graph: the second task only lets the next one wait for those that fail.
        with TaskGroup("snapshots", prefix_group_id=prefix_group_id) as snapshots:
            read = BinlogSnapshotOperator.partial(
                task_id="snapshot", **captured, **named
            ).expand_kwargs(plan.output)
            read >> EmptyOperator(task_id="snapshots_done", trigger_rule="all_done")
        begun: dict[str, Any] = {"start": sensor.output, **captured, **(extract or {})}
        target |= {"options": options, **merging}
        if follow is None:
            stage = BinlogExtractOperator(task_id="stage", **begun)
            merged = BinlogMergeOperator(task_id="merge", staged=stage.output, **target)
            checkpoint = BinlogCheckpointOperator(task_id="checkpoint", staged=stage.output)
            sensor >> plan >> snapshots >> stage >> merged >> checkpoint
        else:
            following = BinlogFollowOperator(task_id="stage", follow=follow, every=every, **begun)
            staged = {"source": source.name, "staging_path": staging_path}
            merged = BinlogMergeOperator(task_id="merge", staged=staged, follow=follow, **target)
            sensor >> plan >> snapshots >> [following, merged]
    # Outside of the group, whose followers do not wait for it: the run fails with its last tasks.
    read >> BinlogTablesLiveOperator(
        task_id=f"{group_id}_tables_live" if prefix_group_id else "tables_live",
        merged=merged.output,
        on_stale=on_stale,
        trigger_rule="none_failed_min_one_success",
    )
    return group


def binlog_to_lake_dag(
    dag_id: str,
    source: BinlogSource,
    *,
    schedule: Any,
    dag: Mapping[str, Any] | None = None,
    **lake: Any,
) -> DAG:
    """Return a DAG of nothing but `binlog_to_lake`, one run at a time.

    Args:
        dag_id: Names the DAG.
        source: The server to read.
        schedule: When it runs, ``"*/5 * * * *"``.
        dag: More arguments of the DAG by name.
        lake: The arguments of `binlog_to_lake`; its tasks have no prefix.
    """
    once = {"catchup": False, "max_active_runs": 1}
    with DAG(dag_id, schedule=schedule, **{**once, **(dag or {})}) as made:
        binlog_to_lake(source, **{"prefix_group_id": False, **lake})
    return made
