"""Hypothesis strategies for what the log holds."""

from __future__ import annotations

from hypothesis import strategies as st

from airflow_provider_binlog.binlog.column_types import (
    BLOBS,
    NUMERIC,
    VARCHARS,
    ColumnType,
    metadata_width,
)
from airflow_provider_binlog.binlog.events.table_map import TableMap, TableMapColumn
from airflow_provider_binlog.binlog.gtid_set import GtidSet
from airflow_provider_binlog.position import Flavor

_COLLATIONS = st.sampled_from([8, 28, 33, 45, 63, 255, 2304])
_NAMES = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), min_size=1, max_size=8
)
_OWN_TYPES = {
    Flavor.MYSQL: frozenset({ColumnType.BLOB_COMPRESSED, ColumnType.VARCHAR_COMPRESSED}),
    Flavor.MARIADB: frozenset({ColumnType.VECTOR, ColumnType.JSON}),
}
_NEVER = frozenset({ColumnType.TYPED_ARRAY, ColumnType.INVALID, ColumnType.BOOL, ColumnType.STRING})


@st.composite
def columns(
    draw: st.DrawFn, flavor: Flavor, *, signs: bool, charsets: bool, full: bool
) -> TableMapColumn:
    """Return a column with the metadata that a server of this family logs."""
    kinds = sorted(set(ColumnType) - _NEVER - _OWN_TYPES[flavor] | {ColumnType.STRING})
    kind = draw(st.sampled_from(kinds))
    metadata = draw(st.binary(min_size=metadata_width(kind), max_size=metadata_width(kind)))
    code = kind
    if kind in (ColumnType.ENUM, ColumnType.SET):
        code, metadata = ColumnType.STRING, bytes((kind, draw(st.sampled_from([1, 2]))))
    elif kind == ColumnType.STRING:
        metadata = bytes((draw(st.sampled_from([0xFE, 0xEE, 0xDE, 0xCE])), metadata[1]))
    labelled = kind in (ColumnType.ENUM, ColumnType.SET)
    own = ColumnType.VECTOR if flavor is Flavor.MYSQL else ColumnType.GEOMETRY
    text = kind in BLOBS | VARCHARS | {ColumnType.STRING, own}
    values = st.lists(st.binary(max_size=5), min_size=1, max_size=4).map(tuple)
    has_collation = (charsets and text) or (full and labelled)
    return TableMapColumn(
        code,
        metadata,
        kind,
        nullable=draw(st.booleans()),
        unsigned=draw(st.booleans()) if signs and kind in NUMERIC else None,
        collation=draw(_COLLATIONS) if has_collation else None,
        name=draw(_NAMES) if full else None,
        enum_values=draw(values) if full and kind == ColumnType.ENUM else None,
        set_members=draw(values) if full and kind == ColumnType.SET else None,
        geometry_type=draw(st.integers(0, 7)) if signs and kind == ColumnType.GEOMETRY else None,
        visible=draw(st.booleans()) if full and flavor is Flavor.MYSQL else None,
        vector_dimension=draw(st.integers(1, 16383))
        if signs and kind == ColumnType.VECTOR
        else None,
    )


@st.composite
def table_maps(draw: st.DrawFn, flavor: Flavor) -> TableMap:
    """Return a table as `binlog_row_metadata` of NO_LOG, MINIMAL or FULL logs it."""
    level = draw(st.sampled_from(["NO_LOG", "MINIMAL", "FULL"]))
    minimal, full = level != "NO_LOG", level == "FULL"
    column = columns(flavor, signs=minimal, charsets=minimal, full=full)
    members = draw(st.lists(column, min_size=1, max_size=20))
    key = None
    if full and draw(st.booleans()):
        indexes = st.integers(0, len(members) - 1)
        pairs = st.tuples(indexes, st.sampled_from([0, 0, 7, 300]))
        key = tuple(draw(st.lists(pairs, min_size=1, max_size=3)))
    return TableMap(
        draw(st.integers(0, 2**48 - 1)),
        draw(st.integers(0, 0xFFFF)),
        draw(_NAMES),
        draw(_NAMES),
        tuple(members),
        key,
    )


_SERVERS = st.sampled_from(
    ["00000000-0000-0000-0000-00000000000a", "ffffffff-ffff-ffff-ffff-ffffffffffff"]
)
_TAGS = st.sampled_from(["", "a", "b_1"])

gtid_intervals = st.lists(
    st.tuples(_SERVERS, _TAGS, st.integers(1, 40), st.integers(0, 6)), max_size=12
)
"""(uuid, tag, first, how many more): small numbers, so that intervals meet."""


def gtid_set(intervals: list[tuple[str, str, int, int]]) -> GtidSet:
    """Return the set that `gtid_intervals` describe."""
    result = GtidSet()
    for server, tag, first, more in intervals:
        result.add_interval(server, tag, first, first + more)
    return result
