"""What one range is: the log between two positions, and what is staged of it."""

from __future__ import annotations

import hashlib
import json
from dataclasses import KW_ONLY, asdict, dataclass, field
from typing import TYPE_CHECKING

import pyarrow as pa

from airflow_provider_binlog import __version__
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.rows.policies import DEFAULT_POLICIES, Policies
from airflow_provider_binlog.schema_history.tables import NOTHING_KNOWN, Known

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.capture.table_filter import TableFilter
    from airflow_provider_binlog.changes import BeforeImages
    from airflow_provider_binlog.manifest import Prepared
    from airflow_provider_binlog.position import Position, SourceIdentity


@dataclass(frozen=True)
class LogRange:
    """A bounded range of a log, and how it is staged.

    Attributes:
        start: Its first byte; a boundary between two transactions.
        stop: Past its last byte; another boundary.
        identity: The server that wrote the log.
        source_name: The source's folder in the store.
        sequence: The number of the range's manifest there.
        tables: Which tables are captured.
        before_images: Which before-images of updates are staged.
        created_by: Noted in the manifest.
        limits: Bounds of memory and files.
        policies: How zero dates and invalid byte sequences are staged.
        prepared: The XA transactions that are in doubt at `start`.
        known: The tables that were known before the range.
        captured_since: Number of the first manifest, without a gap, that has the same `tables`.
        wants_defaults: Whether the server is queried for the defaults of all columns.
    """

    start: Position
    stop: Position
    _: KW_ONLY
    identity: SourceIdentity
    source_name: str
    sequence: int
    tables: TableFilter
    before_images: BeforeImages
    created_by: str
    limits: Limits = field(default_factory=Limits)
    policies: Policies = DEFAULT_POLICIES
    prepared: Sequence[Prepared] = ()
    known: Known = NOTHING_KNOWN
    captured_since: int = 1
    wants_defaults: bool = False

    @property
    def id(self) -> str:
        """A name for the range's parts: that of another range under the same number differs.

        Two runs may stage at once, up to different stops, before one of them commits the number:
        neither may overwrite what the other's manifest names.
        """
        deciding = (
            __version__,
            self.identity.to_json(),
            (self.start.file, self.start.offset),
            (self.stop.file, self.stop.offset),
            (list(self.tables.include), list(self.tables.exclude)),
            self.before_images.value,
            (self.policies.zero_dates.value, self.policies.invalid_text.value),
            asdict(self.limits),
            # Another release of Arrow may write the same rows in other bytes.
            pa.__version__,
        )
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:12]
