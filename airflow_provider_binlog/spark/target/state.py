"""Whether a lake table is `loading`, `live` or `stale`: a property of it.

`live`: it has every row of its table, or the author chose to begin with the changes. `loading`: it
lacks rows that are not staged. `stale`: a change of its table cannot be followed. Of both a reload
is the way out; until then merges leave the table alone, and it keeps what it has.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from airflow_provider_binlog.errors import MALFORMED, FormatError
from airflow_provider_binlog.spark.target.mark import Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

PROPERTY = "binlog.state"
"""Table property: `LakeState` as JSON. One that holds at a mark is believed only while that is the
table's: after a restore it says nothing."""

StateName: TypeAlias = Literal["loading", "live", "stale"]


@dataclass(frozen=True)
class LakeState:
    """The state of a lake table.

    Attributes:
        name: See the module.
        reason: Why it is `loading` or `stale`; for people.
        position: Where in the log that happened; empty if nowhere in particular.
        mark: The applied mark that it holds at; None if at every one.
        snapshot: The snapshot that the table was last loaded from when it got that mark.
        since: When a merge first found it so, ISO 8601 in UTC; empty if that is not noted.
    """

    name: StateName
    reason: str = ""
    position: str = ""
    mark: Mark | None = None
    snapshot: str = ""
    since: str = field(default="", compare=False)

    @property
    def is_merged(self) -> bool:
        """Whether merges change the table."""
        return self.name == "live"

    def at(self, mark: Mark, snapshot: str = "") -> LakeState:
        """Return the state as one that holds at a mark, once loaded from a snapshot."""
        return replace(self, mark=mark, snapshot=snapshot)

    def continues(self, before: LakeState) -> bool:
        """Whether a table was in this state before, for the same reason."""
        own, other = ((each.name, each.reason, each.position) for each in (self, before))
        return own == other


LIVE = LakeState("live")
CHANGES_ONLY = LakeState(
    "live",
    "it began with the changes that are staged (initial_load='changes_only'): it lacks the rows "
    "that did not change since",
)
WITHOUT_BEGINNING = LakeState(
    "loading",
    "it has rows from before the staged log, which does not contain its creation: load it from a "
    "snapshot; or let it begin with the changes, with initial_load='changes_only'",
)


def state_property(state: LakeState) -> dict[str, str]:
    """Return the property that says so."""
    return {PROPERTY: json.dumps(state_to_json(state), ensure_ascii=False)}


def read_state(properties: Mapping[str, str], mark: Mark, snapshot: str = "") -> LakeState:
    """Return the state of a table with a mark, last loaded from a snapshot.

    `live` where its property holds at another mark, or was set before that was loaded; so is a
    table that began with changes, once it is loaded.
    """
    try:
        state = state_from_json(json.loads(properties[PROPERTY]))
    except MALFORMED:
        return LIVE
    holds = state.mark is None or (state.mark, state.snapshot) == (mark, snapshot)
    holds = holds and (state.name != "live" or state.snapshot == snapshot)
    return state if holds else LIVE


def state_to_json(state: LakeState) -> dict[str, str | None]:
    """Return a state as a value of JSON."""
    return {
        "state": state.name,
        "reason": state.reason,
        "position": state.position,
        "applied": None if state.mark is None else str(state.mark),
        "snapshot": state.snapshot,
        "since": state.since,
    }


def state_from_json(value: Any) -> LakeState:
    """Return the state that `state_to_json` returned the value of.

    Raises:
        FormatError: There is no such state; and what else `MALFORMED` lists.
    """
    name, applied = value["state"], value["applied"]
    if name not in get_args(StateName):
        raise FormatError("no state of a lake table", state=name)
    mark = None if applied is None else Mark.parse(applied)
    reason, position, snapshot = value["reason"], value["position"], value["snapshot"]
    return LakeState(name, str(reason), str(position), mark, str(snapshot), str(value["since"]))
