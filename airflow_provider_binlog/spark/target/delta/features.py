"""What a Delta table has to support before its columns change: readers have to know each feature.

Source: the Delta transaction log protocol, "Table Features".
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.schema import AddField, AlterField, DropField, RenameField
from airflow_provider_binlog.spark.target.state import MissingFeatures

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from airflow_provider_binlog.schema import Action
    from airflow_provider_binlog.spark.plan.evolution import Evolution

MAPPING = "delta.columnMapping.mode"
COLUMN_MAPPING = {MAPPING: "name"}
"""The property with which columns can be dropped and renamed, and have any name."""

_WIDENING = "delta.enableTypeWidening"
_FEATURE = "delta.feature."
_SUPPORTED = "supported"
_NTZ = f"{_FEATURE}timestampNtz"
_NAMES = {
    MAPPING: "column mapping",
    _WIDENING: "type widening",
    _NTZ: "timestamps without a time zone",
}
_MAPPED_CHARACTERS = frozenset(" ,;{}()\n\t=")


def supported_features(protocol: Mapping[str, Any]) -> dict[str, str]:
    """Return the table features of a protocol, as the properties that add them."""
    return {f"{_FEATURE}{each}": _SUPPORTED for each in protocol.get("writerFeatures") or ()}


def needed_features(
    evolution: Evolution, *, columns: Mapping[str, str], properties: Mapping[str, str]
) -> dict[str, str]:
    """Return the properties of features that a table lacks, and needs before it is evolved.

    Args:
        evolution: How its columns are to change.
        columns: Name and Spark type of those that it has.
        properties: The table's, and its features as `supported_features` returns them.
    """
    needed = {}
    types = evolution.added.values()
    # Delta switches it on by itself for a new table, but not for an old one.
    has_ntz = "timestamp_ntz" in columns.values() or properties.get(_NTZ) == _SUPPORTED
    if "timestamp_ntz" in types and not has_ntz:
        needed[_NTZ] = _SUPPORTED
    if evolution.widened and properties.get(_WIDENING) != "true":
        needed[_WIDENING] = "true"
    renames = evolution.dropped or evolution.renamed or any(map(_is_mapped, evolution.added))
    if renames and properties.get(MAPPING, "none") == "none":
        needed |= COLUMN_MAPPING
    return needed


def find_missing(
    evolution: Evolution, *, columns: Mapping[str, str], properties: Mapping[str, str]
) -> MissingFeatures | None:
    """Return what `needed_features` returns, as a reason not to evolve the table; None without."""
    features = needed_features(evolution, columns=columns, properties=properties)
    if not features:
        return None
    names = " and ".join(words for each, words in _NAMES.items() if each in features)
    return MissingFeatures(names, partial(_needs_feature, features))


def _needs_feature(features: Collection[str], action: Action) -> bool:
    """Whether it may be for an action that a table needs one of these features."""
    if isinstance(action, DropField | RenameField):
        return MAPPING in features
    if isinstance(action, AlterField):
        return _WIDENING in features
    if isinstance(action, AddField):
        return _NTZ in features or (MAPPING in features and _is_mapped(action.name))
    return False


def _is_mapped(name: str) -> bool:
    """Whether only a table with column mapping has columns of such a name."""
    return not _MAPPED_CHARACTERS.isdisjoint(name)
