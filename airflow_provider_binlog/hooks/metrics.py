"""What monitoring draws: metrics, sent as Airflow's own are, by StatsD or OpenTelemetry.

Each has the tag `source`. Where metrics are off, these calls do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from airflow.sdk.observability import stats

from airflow_provider_binlog.errors import BinlogError

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.sources.lag import Lag


def send_lag(source: str, lag: Lag) -> None:
    """Send how far a source is from the end of its server's log, and from its purge."""
    tags = _tag(source=source)
    stats.gauge("binlog.lag_bytes", lag.bytes, tags=tags)
    stats.gauge("binlog.lag_seconds", lag.seconds, tags=tags)
    stats.gauge("binlog.head_room_bytes", lag.bytes_before, tags=tags)
    if lag.head_room is not None:
        stats.gauge("binlog.head_room_seconds", lag.head_room.total_seconds(), tags=tags)


def try_to_send_lag(source: str, read: Callable[[], Lag | None], logger: Any) -> None:
    """Send a lag that nothing but the metric needs: that it is not known now stops nothing."""
    try:
        lag = read()
    except BinlogError as error:
        logger.warning("%s: the lag is not known: %s", source, error)
        return
    if lag is not None:
        send_lag(source, lag)


def send_staged(source: str, manifests: Sequence[Manifest], *, quarantined: int) -> None:
    """Send what is staged in manifests; `quarantined` is of all that the task staged."""
    tags = _tag(source=source)
    tables = [table for manifest in manifests for table in manifest.tables]
    size = sum(part.bytes for table in tables for part in table.parts)
    stats.incr("binlog.rows", sum(table.rows for table in tables), tags=tags)
    stats.incr("binlog.bytes", size, tags=tags)
    stats.gauge("binlog.quarantined_tables", quarantined, tags=tags)


def send_snapshot(source: str, *, rows: int, size: int) -> None:
    """Send what a complete snapshot has staged."""
    tags = _tag(source=source)
    stats.incr("binlog.snapshot_rows", rows, tags=tags)
    stats.incr("binlog.snapshot_bytes", size, tags=tags)


def send_merged(report: Mapping[str, Any], format_: str, lake: str) -> None:
    """Send how many rows of a lake a merge changed, and how many tables are in each state."""
    tags = _tag(source=report["source"], format=format_, lake=lake)
    tables = report["tables"]
    rows = sum(count or 0 for table in tables for count in table["rows"].values())
    stats.incr("binlog.merged_rows", rows, tags=tags)
    counts = Counter(table["status"] for table in tables)
    counts["suspect"] = sum(bool(table.get("suspect")) for table in tables)
    counts["live"] = len(report.get("versions", ()))
    for state in ("loading", "stale", "suspect", "live"):
        stats.gauge("binlog.tables", counts[state], tags=tags | {"state": state})


def _tag(**values: str) -> dict[str, str]:
    """Return tags whose values StatsD takes: Airflow drops a metric that has another one."""
    return {
        name: stats.normalize_name_for_stats(value, log_warning=False)
        for name, value in values.items()
    }
