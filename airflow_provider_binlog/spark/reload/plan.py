"""A reload of one table: the rows of a snapshot, and the staged changes after it over them.

    manifests    ... | 41 | 42 | 43 | 44
    snapshot              low ... high
    collapse           rows of the snapshot, 42, 43, 44

The changes are replayed from the start of a manifest that the snapshot contains all of before, to
the end of one that has all that it may have seen. This gives the rows of the table, whenever each
row was read:

- A key that a change names has what the last such change says: with whole images that is the whole
  row, or none. Changes from before the read only repeat what was read.
- A key that no change names was not changed since before it was read: it is what was read.

With images that lack columns the same holds for each column of a row, as long as rows keep their
keys: a change of a row that was not read is followed by its delete. A row that gets another key in
such an image may be in no chunk; the collapse refuses it.

A table without a key has no such rows: every change counts once. It is loaded from a snapshot of
one moment, over which changes are replayed from exactly there.

Positions of one server are compared by their coordinates, those of different servers by their GTID
sets. Only a GTID set, where there is one, says which transactions a SELECT saw: a server writes a
transaction to its log before the engine makes it visible.

A lake table whose rows someone else loaded is adopted in the same way: its rows stand for those of
the snapshot, and the changes of the first manifest are merged into them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.manifest import Manifest, TableChanges
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import split_file_name
from airflow_provider_binlog.schema import CreateTable, DropTable, QuarantineTable, RenameTable
from airflow_provider_binlog.spark.plan.fold import TableRange
from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle, find_field_ids, find_table
from airflow_provider_binlog.spark.plan.planner import TablePlan, plan_next
from airflow_provider_binlog.spark.plan.segment import StartWithin
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.state import KEY, UNSEEN, Mark

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from airflow_provider_binlog.manifest import End, Manifest, Statement
    from airflow_provider_binlog.position import Position, SourceIdentity
    from airflow_provider_binlog.schema import Action, Schema, TableId, TableName
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.plan.segment import Segment, Stop
    from airflow_provider_binlog.spark.target.state import TargetState

_SCHEMA = 0
"""Id of the snapshot's schema: no schema of the log has it."""

_SHOWN = 3

OVERTAKEN = "its table was dropped or renamed after it"
"""Why a snapshot is not loaded whose table has its name no more."""


@dataclass(frozen=True)
class Reload:
    """A reload that is due.

    Attributes:
        snapshot: The rows to load.
        first: Number of the first manifest that is replayed over it.
    """

    snapshot: SnapshotManifest
    first: int


@dataclass(frozen=True)
class Refusal:
    """Why a snapshot is not loaded.

    Attributes:
        reason: In words.
        lost_key: Whether the reason is that the table lost its key: no other snapshot helps.
    """

    reason: str
    lost_key: bool = False


def plan_reload(
    reload: Reload,
    log: TableLog,
    state: TargetState | None,
    *,
    chosen_key: tuple[str, ...] | None,
) -> TablePlan | Refusal:
    """Plan the reload of a table: its first segment replaces the rows of the lake table.

    Args:
        reload: The snapshot, and from where on changes are replayed over it.
        log: The manifests, from there on at least.
        state: The lake table; None if there is none.
        chosen_key: Key columns, if the user chose them.

    Raises:
        MergeError: A column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    snapshot, name = reload.snapshot, reload.snapshot.name
    every, manifests, replayed = _replay(reload, log)
    table = find_table(name, replayed, first=reload.first)
    refusal = _find_refusal(snapshot, replayed, table)
    if refusal is not None or table is None:
        return refusal or Refusal(OVERTAKEN)
    keyed = bool(chosen_key or snapshot.schema.key)
    start = _find_start(reload, manifests[0])
    refusal = _find_unfit(snapshot, state, keyed=keyed, exact=start is not None)
    if refusal is not None:
        return refusal
    if _has_another_table(replayed, name, table):
        return Refusal(OVERTAKEN)
    rows = _as_manifest(reload, table, replayed, manifests[0])
    lifecycle = Lifecycle(table, rows.sequence, replaces=True)
    source = TableRange(
        name,
        TableLog([rows, *replayed.manifests]),
        rows.sequence,
        state,
        chosen_key,
        reloads=True,
    )
    plan = plan_next(source, lifecycle, keyed=keyed)
    segment, stop = plan.segment, plan.stop
    if stop is not None and not _is_after(stop, snapshot, manifests):
        return Refusal(f"{stop.reason}: correct that, and take the snapshot again")
    if segment is not None and snapshot.adopts and segment.evolution.changes_columns:
        return Refusal("its columns are not those of the table: change them, and adopt it then")
    if segment is not None:
        segment = _of_snapshot(segment, snapshot, start)
    return replace(plan, segment=segment, more=plan.more or len(every) > len(manifests))


def is_overtaken(reload: Reload, log: TableLog) -> bool:
    """Whether the name of a snapshot's table stands for another table after it, or for none.

    Not where that happened while the table was read: such a snapshot is refused for that.

    Args:
        reload: The snapshot, and from where on changes would be replayed over it.
        log: The manifests, from there on at least.
    """
    snapshot, name = reload.snapshot, reload.snapshot.name
    _, _, replayed = _replay(reload, log)
    table = find_table(name, replayed, first=reload.first)
    if _find_refusal(snapshot, replayed, table) is not None:
        return False
    return table is None or _has_another_table(replayed, name, table)


def _replay(reload: Reload, log: TableLog) -> tuple[list[Manifest], list[Manifest], TableLog]:
    """Return the manifests from the snapshot on, those that are replayed, and what of them is."""
    snapshot = reload.snapshot
    every = [manifest for manifest in log.manifests if manifest.sequence >= reload.first]
    manifests = every[:1] if snapshot.adopts else every
    tables = log.tables(snapshot.name)
    return (
        every,
        manifests,
        TableLog([_without_before(manifest, snapshot, tables) for manifest in manifests]),
    )


def _has_another_table(log: TableLog, name: TableName, table: TableId) -> bool:
    holdings = log.holdings(name, since=log.first)
    return bool(holdings) and holdings[-1].table != table


def _of_snapshot(
    segment: Segment, snapshot: SnapshotManifest, start: StartWithin | None
) -> Segment:
    """Return the first segment of a reload: it replaces the rows, unless they are adopted."""
    if snapshot.adopts:
        return replace(segment, starts_empty=False, start=start)
    return replace(segment, reloads=True, start=start)


def _find_start(reload: Reload, first: Manifest) -> StartWithin | None:
    """Return where changes are replayed from, if the snapshot has the rows of one position."""
    snapshot = reload.snapshot
    if not snapshot.is_exact or first.identity != snapshot.identity:
        return None
    return StartWithin(reload.first, *snapshot.low.coordinates)


def _is_after(stop: Stop, snapshot: SnapshotManifest, manifests: Iterable[Manifest]) -> bool:
    """Whether a stop is after all that the snapshot may have seen.

    Before, its rows are those of no single moment. A statement that stops is after it: one between
    `low` and `high` is refused.
    """
    if snapshot.adopts:
        return False
    reached = next(manifest.sequence for manifest in manifests if is_reached(snapshot, manifest))
    return bool(stop.cut.mark.statements) or stop.cut.mark.sequence >= reached


def _without_before(
    manifest: Manifest, snapshot: SnapshotManifest, of: Collection[TableId]
) -> Manifest:
    """Return a manifest without the actions whose effect the snapshot shows, and rows before them.

    Also without all other tables than those of these ids: who reloads many tables replays the same
    manifests for each. The numbers of statements stay what they are.
    """
    statements, rows, dropped = [], dict[str, int](), set[str]()
    for statement in manifest.statements:
        if find_order(snapshot, manifest, statement) is not Order.BEFORE:
            statements.append(statement)
            continue
        statements.append(replace(statement, actions=()))
        rows.update({action.table: statement.row for action in statement.actions})
        dropped |= {action.table for action in statement.actions if isinstance(action, DropTable)}
    tables = tuple(
        replace(
            entry,
            parts=tuple(part for part in entry.parts if part.first_row >= rows.get(entry.id, 0)),
        )
        for entry in manifest.tables
        if entry.id in of and entry.id not in dropped
    )
    return replace(manifest, statements=tuple(statements), tables=tables)


def _find_refusal(
    snapshot: SnapshotManifest, log: TableLog, table: TableId | None
) -> Refusal | None:
    """Return the refusal of a snapshot in whose window an action concerns its table."""
    for manifest in log.manifests:
        for statement in manifest.statements:
            order = find_order(snapshot, manifest, statement)
            found = [
                action for action in statement.actions if _concerns(action, snapshot.name, table)
            ]
            if (order is Order.AFTER and not snapshot.adopts) or not found:
                continue
            at = f"{statement.file}:{statement.offset}"
            for action in found:
                if isinstance(action, QuarantineTable):
                    return Refusal(
                        f"its table was quarantined at {at} ({action.reason}), and none of its "
                        f"changes is staged from {manifest.start} to {manifest.stop}: take the "
                        "snapshot again"
                    )
            if snapshot.adopts:
                return Refusal(
                    f"its table was changed by a DDL statement at {at}, soon after the position "
                    f"that it is adopted at ({_text(statement)}): reload it from a snapshot"
                )
            return Refusal(
                f"its table was changed by a DDL statement at {at}, while it was read "
                f"({_text(statement)}): take the snapshot again"
            )
    return None


def _concerns(action: Action, name: TableName, table: TableId | None) -> bool:
    if action.table == table:
        return True
    if isinstance(action, CreateTable | DropTable):
        return action.name == name
    return isinstance(action, RenameTable) and name in (action.old, action.new)


def _text(statement: Statement) -> str:
    return " ".join(statement.text.split()[:_SHOWN])


def _find_unfit(
    snapshot: SnapshotManifest, state: TargetState | None, *, keyed: bool, exact: bool
) -> Refusal | None:
    """Return the refusal of a snapshot that does not fit the lake table, or a table without a key.

    Args:
        snapshot: The snapshot.
        state: The lake table; None if there is none.
        keyed: Whether the rows have a key.
        exact: Whether the snapshot was read at one position.
    """
    if snapshot.where is not None and state is not None and not state.is_empty:
        return Refusal(
            "it has only the rows that satisfy its condition, and would replace all rows of the "
            f"lake table: take the snapshot again without where={snapshot.where!r}, or drop the "
            "lake table"
        )
    if keyed:
        return None
    if state is not None and state.properties.get(KEY, "[]") != "[]":
        return Refusal(
            "its table has no key, and the lake table has one: choose a key with keys={...}, or "
            "drop the lake table",
            lost_key=True,
        )
    if exact:
        return None
    return Refusal(
        "its table has no key, and it was not read at one position: take the snapshot again with "
        "lock='brief', or choose a key with keys={...}"
    )


def _as_manifest(reload: Reload, table: TableId, log: TableLog, like: Manifest) -> Manifest:
    """Return the snapshot as a manifest before all those that are replayed."""
    snapshot = reload.snapshot
    ids = {} if table == UNSEEN else find_field_ids(log, table, since=Mark(reload.first - 1))
    schema = _with_ids(snapshot.schema, ids)
    entry = TableChanges(
        id=table,
        database=snapshot.database,
        table=snapshot.table,
        dropped=False,
        created=None,
        schemas=(schema,),
        current=schema.id,
        last_field_id=0,
        logged=schema.id,
        images=(tuple(field.id for field in schema.fields),),
        parts=tuple(replace(part, schema=schema.id) for part in snapshot.parts),
    )
    return replace(
        like,
        sequence=reload.first - 1,
        start=snapshot.low,
        stop=snapshot.low,
        before_images=BeforeImages.ALL,
        tables=(entry,),
        statements=(),
    )


def _with_ids(schema: Schema, ids: dict[str, int]) -> Schema:
    """Return a snapshot's schema with the field ids of the log; others are below 0."""
    own = {field.id: ids.get(fold_name(field.name), -field.id) for field in schema.fields}
    fields = tuple(replace(field, id=own[field.id]) for field in schema.fields)
    return replace(schema, id=_SCHEMA, fields=fields, key=tuple(own[id_] for id_ in schema.key))


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
