"""Stage one sub-range of a backlog: parts, and a manifest that is not committed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.capture.backlog.plan import result_key
from airflow_provider_binlog.capture.capture_range import capture_range
from airflow_provider_binlog.capture.known_tables import known_tables
from airflow_provider_binlog.capture.log_range import Carried, ExtractRequest, LogRange
from airflow_provider_binlog.capture.table_filter import TableFilter
from airflow_provider_binlog.changes import Policies
from airflow_provider_binlog.errors import ObjectMissingError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.staging.manifest_log import ManifestLog

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_binlog.capture.backlog.plan import BacklogPlan
    from airflow_provider_binlog.capture.progress import Progress
    from airflow_provider_binlog.schema_history.past import ServerTablesReader
    from airflow_provider_binlog.staging.object_store import ObjectStore
    from airflow_provider_binlog.transport.block_stream import BlockStream


def stage_sub_range(
    plan: BacklogPlan,
    number: int,
    source: BlockStream,
    store: ObjectStore,
    *,
    read_server_tables: ServerTablesReader | None = None,
    on_progress: Callable[[Progress], None] | None = None,
) -> Manifest:
    """Return what a sub-range is staged as; what an earlier try has finished is kept.

    Raises:
        BinlogError: As `capture_range`.
    """
    done = find_result(plan, number, store)
    if done is not None:
        return done
    request = _request(plan, number, read_server_tables, on_progress)
    log, sub_range = ManifestLog(store, plan.source_name), plan.sub_ranges[number]
    earlier = log.load(plan.sequence - 1) if plan.sequence > 1 else None
    before = known_tables(store, plan.source_name, log, earlier)
    log_range = LogRange(
        request,
        sub_range.prepared,
        plan.known_at(number, before),
        plan.captured_since,
        Carried(
            before,
            plan.stop,
            plan.files[: sub_range.files],
            frozenset(sub_range.quarantined),
            plan.facts_at(number),
        ),
    )
    manifest = capture_range(log_range, source, store)
    store.write(result_key(plan, number), manifest.encode())
    return manifest


def find_result(plan: BacklogPlan, number: int, store: ObjectStore) -> Manifest | None:
    """Return what a sub-range was staged as; None if it was not yet."""
    try:
        return Manifest.decode(store.read(result_key(plan, number)))
    except ObjectMissingError:
        return None


def _request(
    plan: BacklogPlan,
    number: int,
    read_server_tables: ServerTablesReader | None,
    on_progress: Callable[[Progress], None] | None,
) -> ExtractRequest:
    sub_range = plan.sub_ranges[number]
    return ExtractRequest(
        sub_range.start,
        plan.stop_of(number),
        identity=plan.identity,
        sequence=plan.sequence,
        source_name=plan.source_name,
        tables=TableFilter(plan.include, plan.exclude),
        before_images=plan.before_images,
        created_by=plan.created_by,
        limits=Limits(**plan.limits),
        policies=Policies(plan.zero_dates, plan.invalid_text),
        on_table_error=plan.on_table_error,
        read_server_tables=read_server_tables,
        wants_defaults=plan.wants_defaults,
        bytes_total=sub_range.bytes,
        on_progress=on_progress,
        sub_range=f"{plan.id}/{number}",
    )
