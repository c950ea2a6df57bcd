"""Find the table that a name stands for after a range, and the first manifest of its rows.

As gh-ost ends: `RENAME TABLE orders TO _orders_del, _orders_gho TO orders`. A table that was loaded
from a snapshot is the one that its name stood for at the applied mark.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    Action,
    AddField,
    CreateTable,
    DropField,
    DropTable,
    RenameField,
    RenameTable,
    TableId,
    TableName,
)
from airflow_provider_binlog.spark.plan.table_log import Holding, LogAction, Stop, TableLog
from airflow_provider_binlog.spark.target.state import (
    FIELDS,
    NOTHING,
    TABLE_ID,
    UNSEEN,
    Mark,
    TargetState,
)


@dataclass(frozen=True)
class Lifecycle:
    """The table that a name stands for after a range, and how its rows are read.

    Attributes:
        table: The table to read; None where the lake keeps what it has.
        first: Number of the first manifest that is read.
        replaces: Whether the rows that the lake has are those of another table.
        ended: Whether the name stands for no table.
        stop: Why the lake table cannot follow; None if it can.
    """

    table: TableId | None
    first: int
    replaces: bool = False
    ended: bool = False
    stop: Stop | None = None


def _has_rows(state: TargetState | None) -> bool:
    """Whether a lake table has rows of a table: a changelog is that of a name."""
    return state is not None and state.applied != NOTHING and not state.mode.is_changelog


def _followed(state: TargetState | None) -> TableId | None:
    """Return the table whose rows a lake table has; None where its name stood for none."""
    return None if state is None or state.ended or not _has_rows(state) else state.table


def find_lifecycle(
    name: TableName, log: TableLog, first: int, state: TargetState | None
) -> Lifecycle | None:
    """Return what a name stands for after the manifests; None if they do not mention it.

    The lake table does not have those from `first` on yet; others serve tables that were renamed.
    """
    holdings = log.holdings(name, since=first)
    if not holdings:
        return None
    last = holdings[-1]
    table, ended = last.table, last.table is None
    if ended and last.step is not None and isinstance(last.step.action, DropTable):
        # The rows from before the drop are merged.
        table = last.step.action.table
    renamed = None if table is None else _find_rename(name, log, table, first)
    if table is None or _continues(log, table, renamed, first, state):
        return Lifecycle(table, first, ended=ended)
    created = log.created(table)
    if created is not None and _is_staged(log, table, created):
        return Lifecycle(table, min(created, first), _has_rows(state), ended)
    if ended:
        # It is dropped: nobody can load it any more.
        return Lifecycle(None, first, ended=True)
    kept = _followed(state)
    stop = _unknown_rows(name, log, last, renamed, first=first, kept=kept)
    return Lifecycle(kept, first, stop=stop)


def find_changelog_lifecycle(name: TableName, log: TableLog, first: int) -> Lifecycle | None:
    """Return what a name stands for whose lake table is a changelog: that is one of the name.

    None if the manifests from `first` on do not mention it. Rows that a table had before it got the
    name are in no row that was logged under it: only a reload brings them.
    """
    holdings = log.holdings(name, since=first)
    if not holdings:
        return None
    table = holdings[-1].table
    if table is None:
        return Lifecycle(None, first, ended=True)
    renamed = _find_rename(name, log, table, first)
    if renamed is None:
        return Lifecycle(table, first)
    reason = (
        "the table has no key, and the rows that it had when it was renamed were not logged under "
        "its name"
    )
    return Lifecycle(table, first, stop=Stop.at_step(renamed, reason))


def _continues(
    log: TableLog,
    table: TableId,
    renamed: LogAction | None,
    first: int,
    state: TargetState | None,
) -> bool:
    """Whether the rows that the lake has, if it has any, are those of the table from before."""
    if not _has_rows(state):
        return renamed is None
    if _followed(state) != table:
        return False
    return renamed is None or log.find_uncaptured_name(table, since=first) is None


def find_replacement(
    name: TableName, log: TableLog, first: int, state: TargetState | None
) -> int | None:
    """Return the first manifest of a table that a name stands for now, and did not before.

    None where no manifests from before `first` are needed.
    """
    holdings = log.holdings(name, since=first)
    table = holdings[-1].table if holdings else None
    if table is None or _followed(state) == table:
        return None
    if not _has_rows(state) and _find_rename(name, log, table, first) is None:
        return None
    created = log.created(table)
    return created if created is not None and created < first else None


def _is_staged(log: TableLog, table: TableId, created: int) -> bool:
    """Whether the manifests hold every row of a table from its creation on."""
    return created >= log.first and log.find_uncaptured_name(table, since=created) is None


def _find_rename(name: TableName, log: TableLog, table: TableId, first: int) -> LogAction | None:
    """Return the RENAME TABLE that gave a table its name; None if it has had no other one."""
    for step in reversed(log.steps(table, since=Mark(first - 1))):
        if isinstance(step.action, RenameTable) and step.action.new == name:
            return step
    return None


def _unknown_rows(
    name: TableName,
    log: TableLog,
    last: Holding,
    renamed: LogAction | None,
    *,
    first: int,
    kept: TableId | None,
) -> Stop:
    """Return the stop where a name got a table that has rows which are not staged.

    It got it with `last`, by the rename if there was one. Rows from before of the table `kept`,
    which the lake table follows, count.
    """
    manifest = log.manifest(last.sequence)
    if renamed is None or not isinstance(renamed.action, RenameTable):
        reason = (
            "the name stands for another table than the lake table has the rows of, and not all "
            "rows of that table are staged"
        )
        return Stop.at_manifest(manifest, reason)
    table = renamed.action.table
    old = log.find_uncaptured_name(table, since=log.first) or renamed.action.old
    reason = (
        f"the table was called {'.'.join(old)} before it was renamed, and not all rows from then "
        "are staged; for the next time, capture the table of the other name as well, from its "
        "CREATE TABLE on (tables=['shop.*'])"
    )
    lost = [holding.step for holding in log.holdings(name, since=first) if holding.table != kept]
    earliest = next((step for step in lost if step is not None and kept is not None), renamed)
    first_lost = min(earliest, renamed, key=lambda step: step.mark)
    return replace(Stop.at_step(first_lost, reason), statement=Stop.at_step(renamed, "").statement)


def find_table(name: TableName, log: TableLog, *, first: int) -> TableId | None:
    """Return the table that a name stood for before the manifests from `first` on.

    `UNSEEN` where they do not mention the name; None where they say that it stood for none.
    """
    holdings = log.holdings(name, since=first)
    if not holdings:
        return UNSEEN
    step = holdings[0].step
    if step is None:
        return holdings[0].table
    action = step.action
    ended = isinstance(action, DropTable) or (
        isinstance(action, RenameTable) and action.old == name
    )
    return action.table if ended else None


def find_field_ids(log: TableLog, table: TableId, *, since: Mark) -> dict[str, int]:
    """Return the field ids of a table at a mark, by the names that its columns had there.

    Statements name columns in any lettercase: names are folded. Those are missing that no manifest
    after the mark names.
    """
    ids: dict[str, int] = {}
    steps = every = log.steps(table, since=since)
    for manifest, entry in log.entries(table, since=since.sequence + 1):
        if entry.current is not None:
            ids = {fold_name(field.name): field.id for field in entry.schema(entry.current).fields}
            steps = [step for step in every if step.point[0] <= manifest.sequence]
            if not entry.is_partial:
                break
    if any(isinstance(step.action, CreateTable) for step in steps):
        return {}
    reverse_fields(ids, steps)
    return ids


def reverse_fields(ids: dict[str, int], steps: Sequence[LogAction]) -> None:
    """Take back what actions did to the field ids of columns by their names."""
    for _, together in groupby(reversed(steps), lambda step: step.mark):
        _reverse(ids, [step.action for step in together])


def _reverse(ids: dict[str, int], actions: list[Action]) -> None:
    """Take back what one statement did, all at once: columns may exchange their names."""
    for action in actions:
        if isinstance(action, AddField) and not action.optional:
            ids.pop(fold_name(action.name), None)
        elif isinstance(action, RenameField):
            ids.pop(fold_name(action.new), None)
    for action in actions:
        if isinstance(action, DropField):
            ids[fold_name(action.name)] = action.field
        elif isinstance(action, RenameField):
            ids[fold_name(action.old)] = action.field


def identify(state: TargetState | None, name: TableName, log: TableLog) -> TargetState | None:
    """Return a lake table with the ids of the log, where it does not have them itself."""
    if state is None or state.applied == NOTHING:
        return state
    if state.has_ids:
        return _identify_columns(state, log)
    table = state.table
    if table == UNSEEN:
        table = find_table(name, log, first=state.applied.sequence + 1)
    if table is None or table == UNSEEN:
        return state
    fields = state.properties.get(FIELDS, "{}") if state.claims else "{}"
    known = {TABLE_ID: table, FIELDS: fields}
    contents = replace(state.contents, table=table)
    identified = replace(state, properties=state.properties | known, contents=contents)
    return _identify_columns(identified, log)


def _identify_columns(state: TargetState, log: TableLog) -> TargetState:
    """Return a lake table with the ids of the columns that no statement had named so far."""
    claimed = {column for column, _ in state.claims.values()}
    rest = {name: id_ for name, id_ in state.column_ids.items() if id_ not in claimed}
    if state.table is None or not rest or state.mode.is_changelog:
        return state
    ids = find_field_ids(log, state.table, since=state.applied)
    new = {name: id_ for name, id_ in ids.items() if id_ not in state.claims}
    claims = {
        str(new[fold_name(name)]): [column, str(NOTHING)]
        for name, column in rest.items()
        if fold_name(name) in new
    }
    if not claims:
        return state
    known = json.loads(state.properties.get(FIELDS, "{}")) | claims
    return replace(state, properties=state.properties | {FIELDS: json.dumps(known)})
