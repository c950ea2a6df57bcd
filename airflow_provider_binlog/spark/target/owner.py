"""Whose changes a lake table has: its properties name the source, the server and the table."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.protocol import FIELDS, KEY

if TYPE_CHECKING:
    from collections.abc import Sequence

    from airflow_provider_binlog.position import SourceIdentity
    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.target.protocol import TargetState

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


def owner_properties(source: str, identity: SourceIdentity, name: TableName) -> dict[str, str]:
    """Return the properties that say which table of which log a target follows."""
    return {
        SOURCE: source,
        IDENTITY: json.dumps(identity.to_json(), sort_keys=True),
        TABLE: _name_text(name),
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

    `servers` are those whose logs the source has followed, the newest first: which of them the
    target names depends on when it changed last. There are none before the first manifest.

    Raises:
        MergeError: A property is missing or differs.
    """
    found = state.properties
    allowed = [owner_properties(source, server, name) for server in servers]
    if not allowed:
        any_ = found.get(IDENTITY, "")
        allowed = [{SOURCE: source, TABLE: _name_text(name), IDENTITY: any_}]
    same = (each for each in allowed if each[IDENTITY] == found.get(IDENTITY))
    wanted = next(same, allowed[0])
    differs = [each for each in (TABLE, SOURCE, IDENTITY) if found.get(each) != wanted[each]]
    if not differs:
        return
    is_ours = SOURCE in found
    property_ = differs[0] if is_ours else SOURCE
    repair = _REPAIRS.get(property_, _ADOPT)
    raise MergeError(
        f"the target table does not follow this table of this source: {repair}",
        target=target,
        property=property_,
        found=found.get(property_),
        wanted=wanted[property_],
    )


def is_foreign(state: TargetState, *, source: str, name: TableName) -> bool:
    """Whether a lake table follows no table of any source, or this table of another one."""
    found = state.properties
    if not {SOURCE, IDENTITY, TABLE} & found.keys():
        return True
    return found.get(TABLE) == _name_text(name) and found.get(SOURCE, source) != source


def disown(state: TargetState) -> TargetState:
    """Return a foreign lake table without what another source's merges noted in its properties.

    Except for what its rows are merged by.
    """
    noted = {name for name in state.properties if name.startswith(_OURS) and name != KEY}
    kept = {name: each for name, each in state.properties.items() if name not in noted}
    blanks = {name: "{}" if name == FIELDS else "" for name in noted}
    return replace(state, properties=kept, blanks=blanks)


def is_of_merges(state: TargetState) -> bool:
    """Whether merges made a lake table, of whichever source."""
    return KEY in state.properties


def _name_text(name: TableName) -> str:
    return json.dumps(name, ensure_ascii=False)
