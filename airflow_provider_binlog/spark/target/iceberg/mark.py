"""The applied mark of an Iceberg table's current snapshot, from the snapshots that led to it.

Each merge's snapshot has its mark as a property. Compactions and writes of others have none: the
mark is that of the last ancestor that has one. Ancestors expire; what they said is in the table's
previous metadata files.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import MALFORMED
from airflow_provider_binlog.spark.target.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.target.state import TABLE_ID, rows_of_another

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

APPLIED = "binlog.applied"
"""Property of a snapshot: the applied mark. As a table property, set by hand, `{"applied": "7",
"snapshot": 123}`: the mark of that snapshot."""

CONTAINS_TABLE = "binlog.table_id"
"""Property of a snapshot: the id of the table whose rows it has; empty if the merge did not say."""

LOADED = "binlog.loaded"
"""Property of a snapshot: the id of the staged snapshot that the table was last loaded from; empty
if from none."""

WRITER = "binlog.source"
"""Property of a snapshot: the name of the source whose merge made it."""


@dataclass(frozen=True)
class Link:
    """One snapshot.

    Attributes:
        parent: The snapshot that it was built on; None for the first one.
        applied: The mark that it has, as text; None if it has none.
        table: The table whose rows it has; empty if it does not say.
        loaded: The staged snapshot that it was last loaded from; empty if from none.
        source: Name of the source whose merge made it; empty if none did.
        copied: What it says of copied columns, as `Contents.copied`.
    """

    parent: int | None
    applied: str | None
    table: str = ""
    loaded: str = ""
    source: str = ""
    copied: frozenset[str] = frozenset()


def find_contents(
    current: int | None,
    find_link: Callable[[int], Link | None],
    properties: Mapping[str, str],
    *,
    source: str,
) -> Contents | str:
    """Return what a snapshot contains, or why that cannot be determined.

    Args:
        current: The snapshot; None for a table without any.
        find_link: Finds a snapshot; None if it expired, and no metadata file has it.
        properties: The table's.
        source: Name of the source.
    """
    by_hand = _read_by_hand(properties)
    at, written, copied = current, False, frozenset[str]()
    while at is not None:
        if at in by_hand:
            return Contents(by_hand[at], snapshot=None)
        link = find_link(at)
        if link is None:
            return (
                f"snapshot {at} expired, and with it what was applied: reload the table, or set "
                f"the table property {APPLIED} to "
                f'{{"applied": "MANIFEST", "snapshot": {current}}} if you know it'
            )
        # Also of the copy itself, whose merge may have been killed.
        copied |= link.copied
        if link.applied is not None and link.source != source:
            return rows_of_another(link.source)
        if link.applied is not None:
            return Contents(Mark.parse(link.applied), link.table or None, link.loaded, copied)
        at, written = link.parent, True
    # Whoever loads a table by hand sets no table id; the first merge does.
    replaced = written and TABLE_ID in properties
    if replaced:
        return "no snapshot of the table is that of a merge: it was replaced"
    return Contents(NOTHING)


def _read_by_hand(properties: Mapping[str, str]) -> dict[int, Mark]:
    try:
        value = json.loads(properties[APPLIED])
        return {int(value["snapshot"]): Mark.parse(str(value["applied"]))}
    except MALFORMED:
        return {}
