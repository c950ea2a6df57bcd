"""What a snapshot reads, and how."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.snapshot.throttle import Throttle

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName

CHUNK_BYTES = 64 << 20


@dataclass(frozen=True, kw_only=True)
class SnapshotRequest:
    """One snapshot of one table.

    Attributes:
        source_name: Names the source's folder.
        name: Database and table.
        created_by: The run that takes it: a later try of the same run continues it.
        where: The condition on the rows to read, in SQL; None for all.
        exact: Whether all rows are read at one position, in one transaction, be it by a lock that
            keeps writers waiting for moments. A table without a key is always read so; if None, a
            table too whose row images may lack columns.
        chunk_bytes: Bytes of the table that one transaction reads, about.
        policies: How values are staged that no lake type holds.
        limits: How large parts become.
        throttle: How the server is spared.
    """

    source_name: str
    name: TableName
    created_by: str
    where: str | None = None
    exact: bool | None = None
    chunk_bytes: int = CHUNK_BYTES
    policies: Policies = DEFAULT_POLICIES
    limits: Limits = field(default_factory=Limits)
    throttle: Throttle = field(default_factory=Throttle)
