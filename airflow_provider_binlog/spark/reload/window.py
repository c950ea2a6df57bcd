"""Where a snapshot lies in the staged log: what it contains, and what it may have seen.

Positions of one server are compared by their coordinates, those of different servers by their GTID
sets. Which transactions a SELECT saw only a GTID set says, where there is one: a server writes a
transaction to its log before the engine makes it visible.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.schema import QuarantineTable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from airflow_provider_binlog.manifest import End, Manifest, Statement
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest


class Order(Enum):
    """Where a DDL statement is, in relation to a snapshot."""

    BEFORE = "before"
    WITHIN = "within"
    AFTER = "after"


def find_first(snapshot: SnapshotManifest, newest_first: Iterable[Manifest]) -> int | None:
    """Return the number of the first manifest with changes that a snapshot may not contain.

    It is at least the last manifest, also if the snapshot contains that. None where the manifests
    start after what it contains: changes in between are not staged.
    """
    first = None
    for manifest in newest_first:
        if first is not None and _contains(snapshot, manifest.stop, manifest.identity):
            return first
        first = manifest.sequence
        if _contains(snapshot, manifest.start, manifest.identity):
            return first
    return None


def is_reached(snapshot: SnapshotManifest, last: Manifest | End) -> bool:
    """Whether everything that a snapshot may have seen is staged with the last manifest."""
    high, stop = snapshot.high, last.stop
    if last.identity == snapshot.identity:
        return stop.coordinates >= high.coordinates
    return _covers(snapshot, high, stop)


def is_comparable(snapshot: SnapshotManifest, last: Manifest | End) -> bool:
    """Whether positions of the last manifest can be compared with those of a snapshot.

    They cannot where another server was promoted, and one of them has no GTIDs.
    """
    both = snapshot.high.gtid is not None and last.stop.gtid is not None
    return last.identity == snapshot.identity or both


def find_order(snapshot: SnapshotManifest, manifest: Manifest, statement: Statement) -> Order:
    """Return where a statement of a manifest is that the snapshot may not contain.

    Metadata locks order DDL and SELECT: what is logged before `low` has an effect on all of them.
    The quarantine of a table concerns all changes of the manifest.
    """
    if any(isinstance(action, QuarantineTable) for action in statement.actions):
        return _find_quarantine_order(snapshot, manifest)
    if manifest.identity != snapshot.identity:
        after = _covers(snapshot, snapshot.high, manifest.start)
        return Order.AFTER if after else Order.WITHIN
    at = split_file_name(statement.file)[1], statement.offset
    if at < snapshot.low.coordinates:
        return Order.BEFORE
    return Order.AFTER if at >= snapshot.high.coordinates else Order.WITHIN


def _find_quarantine_order(snapshot: SnapshotManifest, manifest: Manifest) -> Order:
    if _contains(snapshot, manifest.stop, manifest.identity):
        return Order.BEFORE
    if manifest.identity != snapshot.identity:
        after = _covers(snapshot, snapshot.high, manifest.start)
    else:
        after = snapshot.high.coordinates <= manifest.start.coordinates
    return Order.AFTER if after else Order.WITHIN


def _contains(snapshot: SnapshotManifest, position: Position, of: SourceIdentity) -> bool:
    """Whether every change before a position was surely visible to all SELECTs."""
    low, is_here = snapshot.low, of == snapshot.identity
    if low.gtid is not None and not (snapshot.is_exact and is_here):
        return _covers(snapshot, position, low)
    return is_here and position.coordinates <= low.coordinates


def _covers(snapshot: SnapshotManifest, inner: Position, outer: Position) -> bool:
    """Whether the GTIDs of one position are known, and all among those of another one."""
    if inner.gtid is None or outer.gtid is None:
        return False
    return not missing_gtids(snapshot.identity.flavor, inner.gtid, outer.gtid)
