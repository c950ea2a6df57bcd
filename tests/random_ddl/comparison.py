"""Whether the tables of a lake hold what SELECT returns, also those without rows or without key."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.staged.types import expected_arrow_type
from tests.random_ddl.options import living_rows
from tests.support.compare import ABSENT, compare, read_tables, select

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from airflow_provider_binlog.manifest import Manifest
    from tests.fixtures.mysql import Database
    from tests.support.compare import Difference, Table
    from tests.support.pipeline import Pipeline
    from tests.unit.spark.workplace import Workplace

_ADDS = ("insert", "update_postimage")
_REMOVES = ("delete", "update_preimage")


def find_differences(pipeline: Pipeline, *, but: Collection[str]) -> Iterator[str]:
    """Yield what is not equal, table by table; names that begin with `_` are left out."""
    yield from find_differing(
        pipeline.workplace, pipeline.manifests, select_all(pipeline.database), but=but
    )


def select_all(database: Database) -> Iterator[tuple[Table, list[dict[str, Any]]]]:
    """Yield the tables of a database that are compared, with their rows."""
    with closing(database.connect()) as connection:
        for table in read_tables(connection, database.name):
            if not table.name.startswith("_"):
                yield table, select(connection, table)


def find_differing(
    workplace: Workplace,
    manifests: Sequence[Manifest],
    selected: Iterable[tuple[Table, list[dict[str, Any]]]],
    *,
    but: Collection[str],
) -> Iterator[str]:
    """Yield what of a lake is not equal to the rows that were selected, table by table."""
    for table, source in selected:
        if table.name in but:
            continue
        name = table.database, table.name
        state = workplace.find_state(*name)
        if state is None:
            if source:
                yield f"{table.name}: there is no lake table, and {len(source)} rows"
        elif "_change_type" in state.columns:
            found = _count(workplace.read(*name))
            if found != len(source):
                yield f"{table.name}: {len(source)} rows, {found} by the changelog"
        else:
            lake = living_rows(workplace.read(*name), state.mode)
            # Of a unique key in place of a primary one, information_schema says nothing.
            key = table.key or tuple(each.name for each in table.columns)
            is_empty = not source and not any(lake.values())
            for each in compare(replace(table, key=key), source, lake):
                # A table without rows has shown no type yet.
                is_kept = state.mode.deletes == "ignore" and each.is_left
                if not (is_empty or is_kept or _waits(manifests, table, each)):
                    yield f"{table.name}: {each}"


def _waits(manifests: Sequence[Manifest], table: Table, difference: Difference) -> bool:
    """Whether a column is missing because neither its statement nor a row has shown its type."""
    if difference.lake != ABSENT:
        return False
    for manifest in reversed(manifests):
        for entry in manifest.tables:
            if entry.name == (table.database, table.name) and entry.current and not entry.dropped:
                fields = entry.schema(entry.current).fields
                found = [each for each in fields if each.name == difference.column]
                return any(
                    each.arrow_type is None and expected_arrow_type(each, manifest) is None
                    for each in found
                )
    return False


def _count(changelog: Mapping[str, list[Any]]) -> int:
    """Return how many rows a table has by its changelog."""
    columns = (changelog[name] for name in ("_sequence", "_row", "_change_type"))
    count = 0
    for _, _, change in sorted(zip(*columns, strict=True), key=lambda each: each[:2]):
        if change in _ADDS:
            count += 1
        elif change in _REMOVES:
            count -= 1
        else:
            count = 0
    return count
