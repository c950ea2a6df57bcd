"""What a person reads of a merge's report, in the log of a task or in a message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from airflow_provider_binlog.hooks.tasks import show_position
from airflow_provider_binlog.spark.job.options import UNMATCHED

HELD = ("loading", "stale")
"""States in which a table is not merged until it is reloaded."""


def describe_merge(report: Mapping[str, Any]) -> str:
    """Return a line for the merge."""
    merged = [table for table in report["tables"] if table["status"] == "merged"]
    rows = count_rows(merged)
    what = f": {len(merged)} tables{', ' + rows if rows else ''}" if merged else ""
    return f"{report['source']}: merged up to manifest {report['through']}{what}"


def list_merged(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each table that was merged, as the job prints it."""
    for table in report["tables"]:
        if table["status"] == "merged":
            rows = count_rows([table]) or "merged"
            yield f"{table['table']}: {rows} in {table['seconds']:.1f} s"


def list_warnings(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield warnings of globs that match nothing, and of tables that are suspect or lack rows."""
    if globs := report.get("unmatched"):
        yield f"{report['source']}: {UNMATCHED} (globs={', '.join(globs)})"
    for table in report["tables"]:
        if table["status"] == "merged" and table["reason"]:
            yield f"{table['table']}: {table['reason']}"
        if suspect := table.get("suspect"):
            yield f"{table['table']} is suspect: {suspect}"
        if layout := table.get("layout"):
            yield f"{table['table']}: {layout}"
        if (rows := table.get("missing_rows")) and not table["reason"]:
            yield (
                f"{table['table']}: {rows} rows that were updated or deleted were not in "
                f"{table['target']}: it lacked rows of its source before this merge: compare "
                "them, and reload it from a snapshot"
            )
        snapshot = table.get("snapshot", "")
        if "not loaded" in snapshot and snapshot not in table["reason"]:
            yield f"{table['table']}: {snapshot}"


def describe_for_asset(report: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the event of an asset says of a merge."""
    merged = (table for table in report["tables"] if table["status"] == "merged")
    return {
        "source": report["source"],
        "through": report["through"],
        "stop": _stop_of(report),
        "rows": {table["table"]: _drop_zeros(table["rows"]) for table in merged},
        "not_live": dict(zip(find_held(report), list_held(report), strict=True)),
        "versions": report.get("versions", {}),
        "published": report.get("published", ""),
    }


def describe_for_aliases(report: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return what the event of each table that was merged says, by the table's name in SQL."""
    return {
        table["target"]: {
            "source": report["source"],
            "table": table["table"],
            **_drop_zeros(table["rows"]),
            "version": table.get("version"),
            "stop": _stop_of(report),
        }
        for table in report["tables"]
        if table["status"] == "merged"
    }


def _stop_of(report: Mapping[str, Any]) -> str | None:
    stop = report.get("stop")
    return None if stop is None else show_position(stop)


def _drop_zeros(rows: Mapping[str, int | None]) -> dict[str, int]:
    return {kind: count for kind, count in rows.items() if count}


def find_held(report: Mapping[str, Any]) -> dict[str, Mapping[str, Any]]:
    """Return the reports of the tables that wait for a reload, by their names."""
    return {table["table"]: table for table in report["tables"] if table["status"] in HELD}


def list_held(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield a line for each table that waits for a reload: its state, since when, where and why."""
    for name, table in find_held(report).items():
        since = f" since {table['since']}" if table.get("since") else ""
        at = f", at {table['position']}" if table.get("position") else ""
        yield f"{name} is {table['status']}{since}{at}, and is not merged: {table['reason']}"


def count_rows(tables: Iterable[Mapping[str, Any]]) -> str:
    """Return `3 inserted, 1 deleted rows`; empty where none were, or nobody counted."""
    total: Counter[str] = Counter()
    for table in tables:
        total.update({kind: count or 0 for kind, count in table["rows"].items()})
    counts = [f"{count:,} {kind}" for kind, count in total.items() if count]
    return f"{', '.join(counts)} rows" if counts else ""
