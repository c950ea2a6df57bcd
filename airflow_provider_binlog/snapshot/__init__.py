"""Snapshots of tables: read in chunks with SELECT while capture continues, and staged as parts.

`take_snapshot` reads a table, and continues where an earlier try of the same run left off. For
tasks that share the chunks of a table it is divided: `begin_snapshot`, `read_chunks`, and
`complete_snapshot` once all are read.
"""

from airflow_provider_binlog.snapshot.chunk import ChunkReader
from airflow_provider_binlog.snapshot.plan import (
    SnapshotFiles,
    SnapshotPlan,
    SnapshotRequest,
    Throttle,
)
from airflow_provider_binlog.snapshot.take import (
    Progress,
    TakenSnapshot,
    begin_snapshot,
    complete_snapshot,
    read_chunks,
    take_snapshot,
)

__all__ = [
    "ChunkReader",
    "Progress",
    "SnapshotFiles",
    "SnapshotPlan",
    "SnapshotRequest",
    "TakenSnapshot",
    "Throttle",
    "begin_snapshot",
    "complete_snapshot",
    "read_chunks",
    "take_snapshot",
]
