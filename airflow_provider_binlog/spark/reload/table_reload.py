"""Which tables of a merge are reloaded, from which snapshot, and what keeps a snapshot waiting.

A table is reloaded from its newest snapshot, if that is newer than the one that its lake table was
last loaded from. The rows, the applied mark, the ids and the snapshot's id are one commit: a merge
that is killed before it reloads the table again; after one that is killed after it, the reload is
done.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.spark.plan.planner import TablePlan
from airflow_provider_binlog.spark.reload.plan import (
    OVERTAKEN,
    Reload,
    find_first,
    is_comparable,
    is_overtaken,
    is_reached,
    plan_reload,
)
from airflow_provider_binlog.spark.staged.types import common_type, spark_type
from airflow_provider_binlog.spark.target.properties import is_of_merges
from airflow_provider_binlog.spark.target.state import NOTHING, Hold

if TYPE_CHECKING:
    from collections.abc import Collection

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.snapshot_manifest import SnapshotManifest
    from airflow_provider_binlog.spark.job.options import MergeOptions
    from airflow_provider_binlog.spark.merge.lake_table import LakeTable
    from airflow_provider_binlog.spark.merge.progress import Progress
    from airflow_provider_binlog.spark.merge.survey import StagedLog
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.target.state import TargetState
    from airflow_provider_binlog.staging.paths import Snapshots


def find_reload(
    table: LakeTable,
    snapshots: Snapshots,
    staged: StagedLog,
    *,
    before: Progress,
    now: Progress,
    present: Collection[int],
) -> None:
    """Plan the reload of a table that has a newer snapshot, or note why that is not loaded.

    Args:
        table: The table; its state is read.
        snapshots: Those of the source.
        staged: The manifests of the source.
        before: The progress before this merge.
        now: The same with those manifests.
        present: Numbers of the manifests that there are.

    Raises:
        ManifestError: The snapshot, or a manifest, is unreadable.
    """
    id_ = snapshots.newest_id(table.name)
    if id_ is not None and id_ <= table.loaded:
        table.processed_snapshot = id_
    if id_ is None or id_ <= table.loaded or _is_settled(table, id_, before):
        return
    snapshot = snapshots.read(id_)
    manifests = partial(staged.newest_first, present)
    last = next(manifests(), None)
    if last is not None and not is_comparable(snapshot, last):
        own = (manifest for manifest in manifests() if manifest.identity == snapshot.identity)
        last = next(own, None)
        if last is None or not is_reached(snapshot, last):
            table.refuse(snapshot.id, _unreachable(snapshot))
            return
    if last is None or not is_reached(snapshot, last):
        table.wait(snapshot.id, f"the staged log has not reached {snapshot.high} yet")
        return
    first = find_first(snapshot, manifests())
    gap = None if first is None else now.find_uncaptured(table.name, since=first)
    if first is not None and gap is None:
        reload = Reload(snapshot, first)
        if is_overtaken(reload, staged.since(first)):
            # The table that has the name now is merged, or loaded, as if there were no snapshot.
            table.processed_snapshot = snapshot.id
            table.report.snapshot = f"snapshot {snapshot.id} is not loaded: {OVERTAKEN}"
        else:
            table.reload, table.first_needed = reload, first
    elif id_ not in before.snapshots:
        table.refuse(snapshot.id, _not_staged(snapshot, last, gap))
    # Else the lake table was dropped or restored, and what was staged by then is not there now.


def _not_staged(snapshot: SnapshotManifest, last: Manifest, gap: int | None) -> str:
    """Return what of the log after a snapshot is not staged: a table in a manifest, or all of it.

    Args:
        snapshot: The snapshot.
        last: The last manifest.
        gap: The manifest that was captured without the table; None if the log is not staged.
    """
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


def _unreachable(snapshot: SnapshotManifest) -> str:
    return (
        f"the staged log left its server before {snapshot.high}, and continues on another one, "
        "whose positions cannot be compared without GTIDs: take the snapshot again"
    )


def _is_settled(table: LakeTable, id_: str, before: Progress) -> bool:
    """Whether a snapshot was processed, and the lake table was not put back to an older state."""
    known = before.tables.get(table.name)
    older = table.state is None or (known is not None and table.applied < known.mark)
    return id_ in before.snapshots and not older


def plan_table_reload(table: LakeTable, log: TableLog, options: MergeOptions) -> None:
    """Plan the reload of a table, or note why its snapshot is not loaded."""
    reload, state = table.reload, table.state
    if reload is None:
        return
    try:
        if reload.snapshot.adopts:
            _check_adopted(table.target, state)
        is_other = table.is_foreign and state is not None and not is_of_merges(state)
        if state is not None and (is_other or reload.snapshot.adopts):
            _check_foreign(table.target, state, reload.snapshot)
        plan = plan_reload(reload, log, state, chosen_key=options.table_options.of(table.name).key)
    except Exception as error:  # noqa: BLE001  It is reported, and fails the job at its end.
        table.fail(error)
        return
    if isinstance(plan, TablePlan):
        table.take(plan)
    else:
        table.refuse(reload.snapshot.id, plan.reason)
        if table.is_merged:
            table.hold = None if state is None or table.is_foreign else state.hold
            table.hold = table.hold or Hold("loading", table.unloaded)
            if plan.lost_key:
                # Not the reload that it asks for ends the hold.
                table.hold = replace(table.hold, reason=plan.reason)


def is_adopted(snapshots: Snapshots, name: TableName, before: Progress) -> bool:
    """Whether someone has said which rows the lake table of a name has.

    Raises:
        ManifestError: What was said is unreadable.
    """
    id_ = snapshots.newest_id(name)
    return id_ is not None and id_ not in before.snapshots and snapshots.read(id_).adopts


def _check_adopted(target: str, state: TargetState | None) -> None:
    """Refuse to adopt a table that is not there, or that is merged already.

    Raises:
        MergeError: It is so.
    """
    if state is None:
        raise MergeError("there is no lake table to adopt: load it first", target=target)
    if state.applied != NOTHING:
        raise MergeError(
            "the lake table follows the source already: to replace its rows, take a snapshot",
            target=target,
            applied=state.applied,
        )


def _check_foreign(target: str, state: TargetState, snapshot: SnapshotManifest) -> None:
    """Refuse to replace the rows of a table that has not the columns of the source's table.

    Raises:
        MergeError: Names or types of columns differ.
    """
    wanted = {fold_name(field.name): field for field in snapshot.schema.fields}
    found = {fold_name(name): type_ for name, type_ in state.columns.items()}
    other = [*(wanted.keys() ^ found.keys())]
    for name in wanted.keys() & found.keys():
        type_ = spark_type(str(wanted[name].arrow_type))
        if common_type(found[name], type_) != found[name]:
            other.append(f"{name} ({found[name]}, not {type_})")
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
