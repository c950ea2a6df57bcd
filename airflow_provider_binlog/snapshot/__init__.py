"""Snapshots of tables: read in chunks with SELECT while capture continues, and staged as parts.

`take_snapshot` reads a table, and continues where an earlier try of the same run left off.
"""

from airflow_provider_binlog.snapshot.request import SnapshotRequest
from airflow_provider_binlog.snapshot.take import Progress, TakenSnapshot, take_snapshot

__all__ = ["Progress", "SnapshotRequest", "TakenSnapshot", "take_snapshot"]
