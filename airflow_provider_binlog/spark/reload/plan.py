"""Reloads: from which snapshot a table is loaded, what is replayed over it, and what is refused.

Changes are replayed from the start of a manifest that the snapshot contains all of before, to the
end of one that has all that it may have seen. A key that a change names has what the last one says,
any other key what was read. A table without a key needs a snapshot of one moment.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING

from airflow_provider_binlog.binlog.gtid_set import missing_gtids
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.manifest import End, Manifest, Statement, TableChanges
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.position import Position, SourceIdentity, split_file_name
from airflow_provider_binlog.schema import (
    Action,
    CreateTable,
    DropTable,
    QuarantineTable,
    RenameTable,
    Schema,
    TableId,
    TableName,
)
from airflow_provider_binlog.snapshot_manifest import SnapshotManifest, planned_at
from airflow_provider_binlog.spark.merge.progress import Progress
from airflow_provider_binlog.spark.plan.fold import Base, StartWithin, TableRange
from airflow_provider_binlog.spark.plan.lifecycle import Lifecycle, find_field_ids, find_table
from airflow_provider_binlog.spark.plan.planner import TablePlan, end_before, plan_next
from airflow_provider_binlog.spark.plan.removals import find_removal
from airflow_provider_binlog.spark.plan.stops import BEFORE_RELOAD
from airflow_provider_binlog.spark.plan.table_log import Point, Stop, TableLog
from airflow_provider_binlog.spark.staged.types import common_type, spark_type
from airflow_provider_binlog.spark.target.modes import SNAPSHOT_CHANGE, choose_mode
from airflow_provider_binlog.spark.target.properties import is_of_merges
from airflow_provider_binlog.spark.target.state import KEY, NOTHING, UNSEEN, Hold, Mark, TargetState
from airflow_provider_binlog.staging.paths import Snapshots
from airflow_provider_binlog.table_options import TableOptions

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable, StagedLog


_SCHEMA = 0
"""Id of the snapshot's schema: no schema of the log has it."""

_SHOWN = 3

OVERTAKEN = "its table was dropped or renamed after it"
"""Reason why a snapshot is not loaded whose table does not have its name any more."""


@dataclass(frozen=True)
class Reload:
    """A snapshot to load, and the number of the first manifest that is replayed over it."""

    snapshot: SnapshotManifest
    first: int


def plan_reload(
    reload: Reload,
    log: TableLog,
    state: TargetState | None,
    options: TableOptions,
) -> TablePlan | str:
    """Plan the reload of a table, or return why its snapshot is not loaded.

    Raises:
        MergeError: A column cannot be merged.
        ConfigurationError: The chosen key columns cannot serve.
    """
    snapshot, name = reload.snapshot, reload.snapshot.name
    manifests, replayed, table = _replay(reload, log)
    refusal = _find_refusal(snapshot, replayed, table)
    keyed, is_exact = bool(options.key or snapshot.schema.key), snapshot.is_exact
    is_exact = is_exact and manifests[0].identity == snapshot.identity
    refusal = refusal or _find_other_columns(snapshot, replayed, table)
    refusal = refusal or _find_unfit(snapshot, state, keyed=keyed, exact=is_exact)
    if refusal is not None or table is None or _has_lost_name(replayed, name, table):
        return refusal or OVERTAKEN
    rows = _as_manifest(reload, table, replayed, manifests[0])
    lifecycle = Lifecycle(table, rows.sequence, replaces=True)
    range_, mode = TableLog([rows, *replayed.manifests]), choose_mode(options, keyed=keyed)
    tables = TableRange(name, range_, state, options, lifecycle, mode, reloads=True)
    if mode.keeps_removed and not snapshot.adopts:
        base = _find_base(snapshot, manifests, range_, state)
        rest = find_removal(name, range_, first=rows.sequence, since=base.until)
        tables = replace(tables, base=base)
        tables = tables if rest is None else end_before(tables, rest)
    plan = plan_next(tables)
    segment, stop = plan.segment, plan.stop
    if stop is not None and not _is_after(stop, snapshot, manifests):
        repair = "" if stop.reason.endswith(BEFORE_RELOAD) else ": correct that"
        return f"{stop.reason}{repair}, and take the snapshot again"
    if segment is None:
        return plan
    if snapshot.adopts and segment.evolution.changes_columns:
        return "its columns are not those of the table: change them, and adopt it then"
    start = StartWithin(reload.first, *snapshot.low.coordinates) if is_exact else None
    # It replaces the rows, unless they are adopted.
    starts_empty = segment.starts_empty and not snapshot.adopts
    reloads = not snapshot.adopts
    segment = replace(segment, starts_empty=starts_empty, reloads=reloads, start=start)
    return replace(plan, segment=segment, more=plan.more or manifests[-1].sequence < log.last)


def _find_base(
    snapshot: SnapshotManifest,
    manifests: Iterable[Manifest],
    log: TableLog,
    state: TargetState | None,
) -> Base:
    """Return the moment whose rows a reload brings: what the snapshot has once `high` is reached.

    Changes that the lake table has already are not later than that.
    """
    reached = next(manifest for manifest in manifests if is_reached(snapshot, manifest))
    until: Point | StartWithin = reached.sequence + 1, 0
    if reached.identity == snapshot.identity:
        until = StartWithin(reached.sequence, *snapshot.high.coordinates)
    if state is not None and state.applied.sequence >= reached.sequence:
        until = log.point(state.applied)
    read_at = int(planned_at(snapshot.id).timestamp() * 1_000_000)
    at = max((part.last_commit for part in snapshot.parts), default=read_at)
    return Base(until, at, SNAPSHOT_CHANGE, snapshot.high.file, snapshot.high.offset)


def is_overtaken(reload: Reload, log: TableLog) -> bool:
    """Whether the name of a snapshot's table stands for another table after it, or for none.

    Not where that happened while the table was read: such a snapshot is refused for that.
    """
    snapshot = reload.snapshot
    _, replayed, table = _replay(reload, log)
    if _find_refusal(snapshot, replayed, table) is not None:
        return False
    return table is None or _has_lost_name(replayed, snapshot.name, table)


def _has_lost_name(log: TableLog, name: TableName, table: TableId) -> bool:
    holdings = log.holdings(name)
    return bool(holdings) and holdings[-1].table != table


def _replay(reload: Reload, log: TableLog) -> tuple[list[Manifest], TableLog, TableId | None]:
    """Return the manifests that are replayed, what of them is, and of which table."""
    snapshot = reload.snapshot
    manifests = [manifest for manifest in log.manifests if manifest.sequence >= reload.first]
    manifests = manifests[:1] if snapshot.adopts else manifests
    tables = log.tables(snapshot.name)
    replayed = TableLog([_without_before(manifest, snapshot, tables) for manifest in manifests])
    return manifests, replayed, find_table(snapshot.name, replayed, first=reload.first)


def _is_after(stop: Stop, snapshot: SnapshotManifest, manifests: Iterable[Manifest]) -> bool:
    """Whether a stop is after all that the snapshot may have seen.

    Before, its rows are those of no single moment. A statement that stops is after it: one between
    `low` and `high` is refused.
    """
    if snapshot.adopts:
        return False
    reached = next(manifest.sequence for manifest in manifests if is_reached(snapshot, manifest))
    return bool(stop.mark.statements) or stop.mark.sequence >= reached


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


def _find_refusal(snapshot: SnapshotManifest, log: TableLog, table: TableId | None) -> str | None:
    """Return the refusal of a snapshot in whose window an action concerns its table."""
    for manifest in log.manifests:
        for statement in manifest.statements:
            order = find_order(snapshot, manifest, statement)
            actions = [
                action for action in statement.actions if _concerns(action, snapshot.name, table)
            ]
            if (order is Order.AFTER and not snapshot.adopts) or not actions:
                continue
            at = f"{statement.file}:{statement.offset}"
            for action in actions:
                if isinstance(action, QuarantineTable):
                    return (
                        f"its table was quarantined at {at} ({action.reason}), and none of its "
                        f"changes is staged from {manifest.start} to {manifest.stop}: take the "
                        "snapshot again"
                    )
            if snapshot.adopts:
                return (
                    f"its table was changed by a DDL statement at {at}, soon after the position "
                    f"that it is adopted at ({_text(statement)}): reload it from a snapshot"
                )
            return (
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


def _find_other_columns(
    snapshot: SnapshotManifest, log: TableLog, table: TableId | None
) -> str | None:
    """Return the refusal of a snapshot without columns of the rows that are replayed, or with more.

    The options have changed in between: these exclude, or hash, others.
    """
    hashes = {fold_name(field.name): field.hashed for field in snapshot.schema.fields}
    excluded = {fold_name(own.field.name) for own in snapshot.schema.excluded}
    others: dict[str, None] = {}
    for _, entry in log.entries(table or "", since=0):
        for schema in {part.schema: entry.schema(part.schema) for part in entry.parts}.values():
            for field in schema.fields:
                name = fold_name(field.name)
                if name in excluded or hashes.get(name, field.hashed) != field.hashed:
                    others[field.name] = None
            left_out = (own.field.name for own in schema.excluded)
            others |= dict.fromkeys(name for name in left_out if fold_name(name) in hashes)
    if not others:
        return None
    return (
        "it was read with other options than the changes that are replayed over it were staged "
        f"with, which exclude or hash other columns ({', '.join(others)}): take the snapshot again"
    )


def _find_unfit(
    snapshot: SnapshotManifest, state: TargetState | None, *, keyed: bool, exact: bool
) -> str | None:
    """Return the refusal of a snapshot that does not fit the lake table, or one without a key."""
    if snapshot.where is not None and state is not None and not state.is_empty:
        return (
            "it has only the rows that satisfy its condition, and would replace all rows of the "
            f"lake table: take the snapshot again without where={snapshot.where!r}, or drop the "
            "lake table"
        )
    if keyed:
        return None
    if state is not None and state.properties.get(KEY, "[]") != "[]":
        return (
            "its table has no key, and the lake table has one: choose a key with options={...}, or "
            "drop the lake table"
        )
    if exact:
        return None
    return (
        "its table has no key, and it was not read at one position: take the snapshot again with "
        "lock='brief', or choose a key with options={...}"
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
    """Order of a DDL statement and a snapshot."""

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
    concerns_all = any(isinstance(action, QuarantineTable) for action in statement.actions)
    if concerns_all and _contains(snapshot, manifest.stop, manifest.identity):
        return Order.BEFORE
    if manifest.identity != snapshot.identity:
        after = _covers(snapshot, snapshot.high, manifest.start)
        return Order.AFTER if after else Order.WITHIN
    at = split_file_name(statement.file)[1], statement.offset
    if concerns_all:
        at = manifest.start.coordinates
    elif at < snapshot.low.coordinates:
        return Order.BEFORE
    return Order.AFTER if at >= snapshot.high.coordinates else Order.WITHIN


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


def find_reload(table: LakeTable, staged: StagedLog, snapshots: Snapshots) -> None:
    """Plan the reload of a table that has a newer snapshot, or note why that is not loaded.

    Raises:
        ManifestError: The snapshot, or a manifest, is unreadable.
    """
    before, id_ = staged.before, snapshots.newest_id(table.name)
    if id_ is not None and id_ <= table.loaded:
        table.processed_snapshot = id_
    if id_ is None or id_ <= table.loaded or _is_settled(table, id_, before):
        return
    snapshot = snapshots.read(id_)
    last = next(staged.newest_first(), None)
    if last is not None and not is_comparable(snapshot, last):
        own = (
            manifest for manifest in staged.newest_first() if manifest.identity == snapshot.identity
        )
        last = next(own, None)
        if last is None or not is_reached(snapshot, last):
            table.refuse(
                snapshot.id,
                f"the staged log left its server before {snapshot.high}, and continues on another "
                "one, whose positions cannot be compared without GTIDs: take the snapshot again",
            )
            return
    if last is None or not is_reached(snapshot, last):
        table.wait(snapshot.id, f"the staged log has not reached {snapshot.high} yet")
        return
    first = find_first(snapshot, staged.newest_first())
    gap = None if first is None else staged.find_gap(table.name, first)
    if first is not None and gap is None:
        reload = Reload(snapshot, first)
        if is_overtaken(reload, staged.since(first)):
            # The table that has the name now is merged, or loaded, as if there were no snapshot.
            table.processed_snapshot = snapshot.id
            table.snapshot = f"snapshot {snapshot.id} is not loaded: {OVERTAKEN}"
        else:
            table.reload, table.first_needed = reload, first
            table.first_lacked = staged.first_needed(table.name, table.applied)
    elif id_ not in before.snapshots:
        table.refuse(snapshot.id, _not_staged(snapshot, last, gap))
    # Else the lake table was dropped or restored, and what was staged by then is not there now.


def _not_staged(snapshot: SnapshotManifest, last: Manifest, gap: int | None) -> str:
    """Return what of the log after a snapshot is not staged: the table in a manifest, or all."""
    if gap is not None:
        return (
            f"manifest {gap} was captured without its table: capture it, and take the snapshot "
            "again"
        )
    if snapshot.low.gtid is not None and last.stop.gtid is None:
        return (
            "the positions of the staged log have no GTIDs yet: take the snapshot again with "
            "lock='brief', or after the server has begun another binlog file and that is staged"
        )
    repair = "reload it from a snapshot" if snapshot.adopts else "take the snapshot again"
    return f"what was logged from {snapshot.low} on is not staged: {repair}"


def _is_settled(table: LakeTable, id_: str, before: Progress) -> bool:
    """Whether a snapshot was processed, and the lake table was not put back to an older state."""
    known = before.tables.get(table.name)
    older = table.state is None or (known is not None and table.applied < known.mark)
    return id_ in before.snapshots and not older


def plan_table_reload(table: LakeTable, reload: Reload, log: TableLog) -> None:
    """Plan the reload of a table, or note why its snapshot is not loaded."""
    state = table.state
    if reload.snapshot.adopts:
        _check_adopted(table.target, state)
    is_other = table.is_foreign and state is not None and not is_of_merges(state)
    if state is not None and (is_other or reload.snapshot.adopts):
        _check_foreign(table, state, reload.snapshot)
    plan = plan_reload(reload, log, state, table.options)
    if isinstance(plan, TablePlan):
        table.take(plan)
        return
    table.refuse(reload.snapshot.id, plan)
    if table.is_active:
        hold = None if state is None or table.is_foreign else state.hold
        table.hold = hold or Hold("loading", table.unloaded)


def is_adopted(snapshots: Snapshots, name: TableName, before: Progress) -> bool:
    """Whether someone has said which rows the lake table of a name has."""
    id_ = snapshots.newest_id(name)
    return id_ is not None and id_ not in before.snapshots and snapshots.read(id_).adopts


def _check_adopted(target: str, state: TargetState | None) -> None:
    """Refuse to adopt a table that is not there, or that is merged already."""
    if state is None:
        raise MergeError("there is no lake table to adopt: load it first", target=target)
    if state.applied != NOTHING:
        raise MergeError(
            "the lake table follows the source already: to replace its rows, take a snapshot",
            target=target,
            applied=state.applied,
        )


def _check_foreign(table: LakeTable, state: TargetState, snapshot: SnapshotManifest) -> None:
    """Refuse to replace the rows of a table that has not the columns of the source's table."""
    target, own = table.target, choose_mode(table.options, keyed=True).columns
    wanted = {fold_name(field.name): field for field in snapshot.schema.fields}
    current = {fold_name(name): type_ for name, type_ in state.columns.items() if name not in own}
    other = [*(wanted.keys() ^ current.keys())]
    for name in wanted.keys() & current.keys():
        type_ = spark_type(str(wanted[name].arrow_type))
        if common_type(current[name], type_) != current[name]:
            other.append(f"{name} ({current[name]}, not {type_})")
    if other:
        raise MergeError(
            "the lake table was made by someone else, and has not the columns of the table: "
            "change it, or choose another target",
            target=target,
            columns=", ".join(sorted(other)),
        )
    if not snapshot.schema.key:
        raise MergeError(
            "the lake table was made by someone else, and the table has no key: choose another "
            "target",
            target=target,
        )
