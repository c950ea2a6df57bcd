"""Stage one sub-range of a backlog: parts, and a manifest that is not committed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.backlog.plan import result_key
from airflow_provider_binlog.capture.capture_range import capture_range
from airflow_provider_binlog.capture.known_tables import known_tables
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import ROW_FILE_SHIFT
from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas, schema_before
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.capture.backlog.plan import BacklogPlan
    from airflow_provider_binlog.capture.log_range import Progress
    from airflow_provider_binlog.schema_history.tables import TableLookup
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


def stage_sub_range(
    plan: BacklogPlan,
    number: int,
    source: BlockStream,
    store: ObjectStore,
    *,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Return what a sub-range is staged as; what an earlier try has finished is kept.

    Raises:
        BinlogError: As `capture_range`.
    """
    done = find_result(plan, number, store)
    if done is not None:
        return done
    log, sub_range = ManifestLog(store, plan.source_name), plan.sub_ranges[number]
    request = replace(
        plan.request(sub_range.start, plan.stop_of(number)),
        bytes_total=sub_range.bytes,
        on_progress=on_progress,
        sub_range=f"{plan.id}/{number}",
    )
    earlier = log.load(plan.sequence - 1) if plan.sequence > 1 else None
    before = known_tables(store, plan.source_name, log, earlier)
    log_range = LogRange(
        request,
        sub_range.prepared,
        plan.known_at(number, before),
        plan.captured_since,
        plan.files[: sub_range.files],
        _schemas_at(plan, number, before),
        plan.changes,
        plan.stop,
        plan.find_server_tables(),
    )
    manifest = capture_range(log_range, source, store)
    store.write(result_key(plan, number), manifest.encode())
    return manifest


def _schemas_at(plan: BacklogPlan, number: int, before: TableLookup) -> TrackedSchemas:
    """Return the schemas of tables at the start of a sub-range.

    Args:
        plan: The backlog.
        number: Number of the sub-range.
        before: The tables that were known before the backlog.
    """
    captured = TableFilter(plan.include, plan.exclude).matches
    schemas = TrackedSchemas(lambda name: schema_before(before, name) if captured(*name) else None)
    first_row = plan.sub_ranges[number].files << ROW_FILE_SHIFT
    for logged in plan.changes:
        if logged.row < first_row:
            schemas.apply(logged, plan.identity.flavor)
    return schemas


def find_result(plan: BacklogPlan, number: int, store: ObjectStore) -> Manifest | None:
    """Return what a sub-range was staged as; None if it was not yet."""
    try:
        return Manifest.decode(store.read(result_key(plan, number)))
    except ObjectMissingError:
        return None
