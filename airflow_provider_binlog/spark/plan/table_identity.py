"""Which table and which fields a lake table follows whose rows the log does not identify.

A table is loaded from a snapshot, and the log may mention it only later: then the table that its
name stood for at the applied mark is the one, and columns are matched by the names that they had.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import groupby
from typing import TYPE_CHECKING

from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    RenameField,
    RenameTable,
)
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark
from airflow_provider_binlog.spark.target.state import FIELDS, TABLE_ID, UNSEEN

if TYPE_CHECKING:
    from collections.abc import Mapping

    from airflow_provider_binlog.schema import Action, TableId, TableName
    from airflow_provider_binlog.spark.plan.table_log import TableLog
    from airflow_provider_binlog.spark.target.state import TargetState


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
            ids = {fold_name(each.name): each.id for each in entry.schema(entry.current).fields}
            steps = [each for each in every if each.point[0] <= manifest.sequence]
            if not entry.is_partial:
                break
    for _, together in groupby(reversed(steps), lambda each: each.mark):
        actions = [each.action for each in together]
        if any(isinstance(each, CreateTable) for each in actions):
            return {}
        _reverse(ids, actions)
    return ids


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
    """Return a lake table with the ids of the log, where it does not have them itself.

    Args:
        state: The lake table; None if there is none.
        name: Database and table.
        log: The manifests.
    """
    if state is None or state.applied == NOTHING:
        return state
    if state.has_ids:
        return _identify_columns(state, log)
    table = state.table
    if table == UNSEEN:
        table = find_table(name, log, first=state.applied.sequence + 1)
    if table is None or table == UNSEEN:
        return state
    claims = _claims(state.column_ids, find_field_ids(log, table, since=state.applied))
    known = {TABLE_ID: table, FIELDS: json.dumps(claims)}
    contents = replace(state.contents, table=table)
    return replace(state, properties=state.properties | known, contents=contents)


def _identify_columns(state: TargetState, log: TableLog) -> TargetState:
    """Return a lake table with the ids of the columns that no statement had named so far."""
    claimed = {column for column, _ in state.claims.values()}
    rest = {name: each for name, each in state.column_ids.items() if each not in claimed}
    if state.table is None or not rest or not state.key:
        return state
    ids = find_field_ids(log, state.table, since=state.applied)
    new = {name: id_ for name, id_ in ids.items() if id_ not in state.claims}
    found = _claims(rest, new)
    if not found:
        return state
    known = json.loads(state.properties.get(FIELDS, "{}")) | found
    return replace(state, properties=state.properties | {FIELDS: json.dumps(known)})


def _claims(columns: Mapping[str, str], ids: Mapping[str, int]) -> dict[str, list[str]]:
    """Return columns by field id, given those of folded names."""
    return {
        str(ids[fold_name(name)]): [column, str(NOTHING)]
        for name, column in columns.items()
        if fold_name(name) in ids
    }
