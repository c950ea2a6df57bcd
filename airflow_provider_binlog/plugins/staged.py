"""The staged files of a source, read for the page."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from airflow_provider_binlog.checkpoint import Checkpoint, at_manifest
from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.hooks.object_storage import open_store
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.plugins.sources import Source, TaskRun
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import part_key, report_path
from airflow_provider_binlog.status.merges import MergeSummary, read_merge
from airflow_provider_binlog.status.ranges import Memory
from airflow_provider_binlog.status.source import SourceStatus, read_status
from airflow_provider_binlog.stored_json import utc_now

MERGES = 20
"""How many reports of merges are read."""

_memory = Memory()


def read_source(source: Source, ranges: int, merges: int) -> SourceStatus:
    """Return the status of a source; raises as `read_status`."""
    store = open_store(source.staging_path)
    return read_status(
        store, source.name, _memory, source.staging_path, ranges=ranges, merges=merges
    )


def read_merges(source: Source) -> tuple[TaskRun, ...]:
    """Return the newest merges of a source, with their reports where there are any."""
    store = open_store(source.staging_path)
    return tuple(
        replace(run, merge=_read_report(store, source, run)) for run in source.merges[:MERGES]
    )


def _read_report(store: ObjectStore, source: Source, run: TaskRun) -> MergeSummary | None:
    path = report_path(run.dag_id, run.run_id, run.task_id, run.map_index)
    # A task that is cleared writes another one.
    key = source.staging_path, source.name, path, run.ended
    known = _memory.find(key)
    if isinstance(known, MergeSummary):
        return known
    try:
        data = store.read(part_key(source.name, path))
    except ObjectMissingError:
        return None
    report = read_merge(data)
    if report is not None and not run.is_running:
        _memory.keep(key, report, len(data))
    return report


class StagedManifest(NamedTuple):
    """A manifest, and the numbers of the oldest and the newest one."""

    manifest: Manifest | None
    oldest: int
    newest: int


def read_manifest(source: Source, sequence: int) -> StagedManifest:
    """Return one manifest, None if there is none before or after; raises as `ManifestLog.load`."""
    log = ManifestLog(open_store(source.staging_path), source.name)
    sequences = log.sequences()
    oldest, newest = (sequences[0], sequences[-1]) if sequences else (1, 0)
    manifest = log.load(sequence) if oldest <= sequence <= newest else None
    return StagedManifest(manifest, oldest, newest)


def find_checkpoint(source: Source, sequence: int, person: str) -> Checkpoint:
    """Return the checkpoint that a person may save; raises as `at_manifest`."""
    log = ManifestLog(open_store(source.staging_path), source.name)
    return at_manifest(log, sequence, saved_at=utc_now(), saved_by=f"{person} in Airflow's UI")
