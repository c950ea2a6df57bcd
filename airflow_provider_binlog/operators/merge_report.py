"""The report of a merge job, as a task finds it: where it is, what it says, and why it failed."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import MergeError, ObjectMissingError, UnknownMergeError
from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.spark.job.report import UNMATCHED
from airflow_provider_binlog.staging.paths import source_folder

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from airflow.sdk import Context

    from airflow_provider_binlog.staging.object_store import ObjectStore


_REPORTS = "_reports"
"""Folder beside a source's manifests; no database's folder begins with an underscore."""


def merged_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what was done to each table."""
    yield f"{report['source']}: merged up to manifest {report['through']}"
    for table in report.get("tables", ()):
        counts = [f"{count} {kind}" for kind, count in table["rows"].items() if count is not None]
        yield f"{table['table']} -> {table['target']}: {table['status']} {', '.join(counts)}"
        if table["status"] == "merged" and table["reason"]:
            yield f"{table['table']}: {table['reason']}"


def warning_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield what globs match nothing, and which tables lacked rows, unless their state says so."""
    if globs := report.get("unmatched"):
        yield f"{report['source']}: {UNMATCHED} (globs={', '.join(globs)})"
    for table in report.get("tables", ()):
        if (rows := table.get("missing_rows")) and not table["reason"]:
            yield (
                f"{table['table']}: {rows} rows that were updated or deleted were not in "
                f"{table['target']}: it lacked rows of its source before this merge: compare "
                "them, and reload it from a snapshot"
            )


def held_lines(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield which tables wait for a reload, and why."""
    tables = report.get("tables", ())
    for status in ("loading", "stale"):
        held = [each for each in tables if each["status"] == status]
        for each in held:
            yield f"{each['table']} is {status}, and is not merged: {each['reason']}"
        if held:
            yield f"of {len(tables)} tables, {len(held)} are {status}"
    for table in tables:
        snapshot = table.get("snapshot", "")
        if "not loaded" in snapshot and snapshot not in table["reason"]:
            yield f"{table['table']}: {snapshot}"


def find_error(report: Mapping[str, Any]) -> MergeError | None:
    """Return why a job failed, as it reports it; None if it does not report a failure."""
    if report.get("status") != "failed":
        return None
    tables = [f"{each['table']}: {each['error']}" for each in report["tables"] if each["error"]]
    failures = [report["error"], *tables] if report["error"] else tables
    return (UnknownMergeError if report["retryable"] else MergeError)("; ".join(failures))


def read_report(store: ObjectStore, key: str) -> dict[str, Any]:
    """Return the report of a job; empty if it has not written one, or not all of it."""
    try:
        found: dict[str, Any] = json.loads(store.read(key))
    except (ObjectMissingError, ValueError):
        return {}
    return found


def forget_report(store: ObjectStore, report: str) -> None:
    """Let nobody read what an earlier job of the task reported."""
    if read_report(store, report):
        store.write(report, b"{}")


def report_key(source: str, context: Context) -> str:
    """Return the key of the report of a task's job."""
    instance = context["ti"]
    names = instance.dag_id, instance.run_id, instance.task_id, str(max(instance.map_index or 0, 0))
    return f"{source_folder(source)}/{_REPORTS}/{'/'.join(map(encode_name, names))}.json"
