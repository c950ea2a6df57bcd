"""Properties that merges write to a lake table: its owner, its key, its columns by field id."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.position import SourceIdentity
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.spark.target.modes import CHANGELOG, CURRENT, MODE, TableMode
from airflow_provider_binlog.spark.target.protocol import TableChange
from airflow_provider_binlog.spark.target.state import (
    ENDED,
    FIELDS,
    KEY,
    NOTHING,
    PROPERTY,
    SNAPSHOT,
    TABLE_ID,
    Claims,
    Hold,
    Mark,
    TargetState,
    hold_property,
    live_property,
    read_fields,
)

SOURCE = "binlog.source"
"""Table property: the name of the source."""

IDENTITY = "binlog.identity"
"""Table property: the server whose log the table follows."""

TABLE = "binlog.table"
"""Table property: database and table at the source."""

_OURS = "binlog."

_ADOPT = (
    "drop it, choose another target, take a snapshot and merge with adopt=True (--adopt), which "
    "replaces its rows, or keep them with airflow binlog adopt"
)
_REPAIRS = {
    TABLE: "drop it, or choose another target",
    IDENTITY: "drop it, choose another target, or capture this server as a source of another name, "
    "take snapshots, and merge with adopt=True (--adopt)",
}


@dataclass(frozen=True)
class Owner:
    """A table of a source, which a lake table follows, and the server whose log is followed."""

    source: str
    identity: SourceIdentity
    name: TableName

    @property
    def properties(self) -> dict[str, str]:
        """The properties that name it."""
        return {
            SOURCE: self.source,
            IDENTITY: _identity_text(self.identity),
            TABLE: _name_text(self.name),
        }


def check_owner(
    target: str,
    state: TargetState,
    *,
    source: str,
    servers: Sequence[SourceIdentity],
    name: TableName,
) -> None:
    """Refuse a target that does not follow this table of this source.

    It names any of `servers`, whose logs the source has followed, the newest first: which, depends
    on when it changed last. There are none before the first manifest.

    Raises:
        MergeError: A property is missing or differs.
    """
    properties = state.properties
    identity = properties.get(IDENTITY, "")
    followed = [_identity_text(server) for server in servers] or [identity]
    wanted = {
        TABLE: _name_text(name),
        SOURCE: source,
        IDENTITY: identity if identity in followed else followed[0],
    }
    differs = [name for name, value in wanted.items() if properties.get(name, "") != value]
    if not differs:
        return
    property_ = differs[0] if SOURCE in properties else SOURCE
    repair = _REPAIRS.get(property_, _ADOPT)
    raise MergeError(
        f"the target table does not follow this table of this source: {repair}",
        target=target,
        property=property_,
        found=properties.get(property_),
        wanted=wanted[property_],
    )


def is_foreign(state: TargetState, *, source: str, name: TableName) -> bool:
    """Whether a lake table follows no table of any source, or this table of another one."""
    properties = state.properties
    if not {SOURCE, IDENTITY, TABLE} & properties.keys():
        return True
    return properties.get(TABLE) == _name_text(name) and properties.get(SOURCE, source) != source


def clear_ownership(state: TargetState) -> TargetState:
    """Return a foreign lake table without what another source's merges noted in its properties.

    Except for what its rows are merged by.
    """
    noted = {name for name in state.properties if name.startswith(_OURS)} - {KEY, MODE}
    kept = {name: value for name, value in state.properties.items() if name not in noted}
    blanks = {name: "{}" if name == FIELDS else "" for name in noted}
    return replace(state, properties=kept, blanks=blanks)


def is_of_merges(state: TargetState) -> bool:
    """Whether merges made a lake table, of whichever source."""
    return KEY in state.properties


def _identity_text(identity: SourceIdentity) -> str:
    return json.dumps(identity.to_json(), sort_keys=True)


def _name_text(name: TableName) -> str:
    return json.dumps(name, ensure_ascii=False)


def find_first_properties(change: TableChange[Any]) -> dict[str, str]:
    """Return what a lake table's properties say before a change has its rows."""
    before, follows = change.before, change.follows
    properties = change.owner.properties | key_property(change.key)
    if before is None or not before.mode.has_rows_of(change.mode):
        properties |= mode_property(before, change.mode)
        if before is not None and before.applied != NOTHING:
            # Effective until the rows of the other mode are replaced.
            hold = Hold("stale", "its rows are being replaced by those of another mode")
            properties |= hold_property(hold, before.applied, before.loaded)
    if change.ends:
        # Effective only once the applied mark is this one.
        properties[ENDED] = str(change.mark)
    if follows is not None and (before is None or before.applied == NOTHING):
        properties[TABLE_ID] = follows
    if change.claims is not None and change.evolution.changes_columns and before is not None:
        # A merge that is killed once the columns changed leaves names that say nothing of their
        # values: the next one knows the columns by their ids.
        properties |= {
            FIELDS: change.claims,
            SNAPSHOT: before.loaded,
            TABLE_ID: before.table or "",
        }
    if change.snapshot is not None and (before is None or before.applied == NOTHING):
        # Effective until the rows are committed.
        return properties | hold_property(Hold("loading", "its rows are being loaded"), NOTHING)
    return properties if before is not None else properties | live_property(change.lacks)


def find_last_properties(change: TableChange[Any], state: TargetState) -> dict[str, str]:
    """Return what a lake table's properties say once it has the rows of a change.

    `state` is the table before its rows were committed, with all of its columns.
    """
    properties = mode_property(state, change.mode)
    if change.follows is not None and change.follows != state.table:
        properties[TABLE_ID] = change.follows
        properties |= new_fields_property(change.evolution.fields, state.column_ids)
    if change.snapshot is not None:
        properties[SNAPSHOT] = change.snapshot
    if change.snapshot is not None or PROPERTY in state.properties:
        properties |= live_property(change.lacks)
    return properties


def count_from_1(columns: Iterable[str]) -> dict[str, str]:
    """Return the ids of columns that a format counts."""
    return {name: str(number) for number, name in enumerate(columns, 1)}


def key_property(key: Sequence[str]) -> dict[str, str]:
    """Return the property that says what rows are merged by."""
    return {KEY: json.dumps(key, ensure_ascii=False)}


def mode_property(before: TargetState | None, mode: TableMode) -> dict[str, str]:
    """Return the property that says a mode; empty if nothing needs to be said."""
    said = before is not None and bool(before.properties.get(MODE))
    return {MODE: mode.text} if said or mode not in (CURRENT, CHANGELOG) else {}


def claims_property(claims: Claims) -> dict[str, str]:
    """Return the property that says which columns a table has of which fields."""
    pairs = {str(field): [column, str(since)] for field, (column, since) in claims.items()}
    return {FIELDS: json.dumps(pairs)}


def new_fields_property(fields: Mapping[int, str], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the claims of a table that has columns for the first time, by the format's `ids`."""
    return claims_property({field: (ids[name], NOTHING) for field, name in fields.items()})


def fields_property(state: TargetState, fields: Mapping[int, str]) -> dict[str, str]:
    """Return the claims of a table that has all columns, given their names by field id."""
    held = state.claims
    return claims_property(
        {
            field: (state.column_ids[name], held[field][1] if field in held else NOTHING)
            for field, name in fields.items()
        }
    )


def claim_again(properties: Mapping[str, str], ids: Mapping[str, str]) -> dict[str, str]:
    """Return the claims in a table's properties, given their columns' new ids."""
    if FIELDS not in properties:
        return {}
    return claims_property(
        {
            field: (column and ids.get(column, column), since)
            for field, (column, since) in read_fields(properties[FIELDS]).items()
        }
    )


def announce_fills(state: TargetState, fields: Collection[int], through: Mark) -> dict[str, str]:
    """Return the claims that say which fields a merge through a mark adds and fills.

    `state` is the table before they are added. Of two merges the one that commits first counts.
    """
    claims: Claims = dict.fromkeys(fields, (None, through))
    claims |= {
        field: (column, min(since, through) if field in fields else since)
        for field, (column, since) in state.claims.items()
    }
    return claims_property(claims)
