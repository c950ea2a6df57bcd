"""What monitoring draws: metrics, sent as Airflow's own are, by StatsD or OpenTelemetry.

Each has the tag `source`. Where metrics are off, these calls do nothing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from airflow.sdk.observability import stats

from airflow_provider_binlog.errors import BinlogError

if TYPE_CHECKING:
    from airflow_provider_binlog.sources.lag import Lag


def send_lag(source: str, lag: Lag) -> None:
    """Send how far a source is from the end of its server's log, and from its purge."""
    tags = {"source": source}
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


def send_staged(source: str, *, rows: int, size: int, quarantined: int) -> None:
    """Send what a task has staged."""
    tags = {"source": source}
    stats.incr("binlog.rows", rows, tags=tags)
    stats.incr("binlog.bytes", size, tags=tags)
    stats.gauge("binlog.quarantined_tables", quarantined, tags=tags)


def send_states(
    source: str, format_: str, lake: str, held: Iterable[Mapping[str, str]], *, live: int
) -> None:
    """Send how many tables of a lake wait for a reload, by state, and how many are live."""
    counts = Counter(table["status"] for table in held)
    counts["live"] = live
    for state in ("loading", "stale", "live"):
        tags = {"source": source, "format": format_, "lake": lake, "state": state}
        stats.gauge("binlog.tables", counts[state], tags=tags)
