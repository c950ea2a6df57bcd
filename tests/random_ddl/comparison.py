"""Whether the tables of a lake hold what SELECT returns, also those without rows or without key."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.staged.types import expected_arrow_type
from tests.support.compare import ABSENT, compare, read_tables, select
from tests.unit.spark.session import reading_session

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from pyspark.sql import SparkSession

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
    session = reading_session(workplace.spark)
    for table, source in selected:
        if table.name in but:
            continue
        target = workplace.lake.target(table.database, table.name)
        if workplace.lake.find_state(session, target) is None:
            if source:
                yield f"{table.name}: there is no lake table, and {len(source)} rows"
        elif "_change_type" in session.table(target).columns:
            found = _count(session, target)
            if found != len(source):
                yield f"{table.name}: {len(source)} rows, {found} by the changelog"
        else:
            lake = session.table(target).toArrow().to_pydict()
            # Of a unique key in place of a primary one, information_schema says nothing.
            key = table.key or tuple(each.name for each in table.columns)
            is_empty = not source and not any(lake.values())
            for each in compare(replace(table, key=key), source, lake):
                # A table without rows has shown no type yet.
                if not is_empty and not _waits(manifests, table, each):
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


def _count(session: SparkSession, target: str) -> int:
    """Return how many rows a table has by its changelog."""
    changes = session.sql(
        f"SELECT _change_type, _sequence, _row FROM {target} ORDER BY _sequence, _row"
    ).collect()
    count = 0
    for change, _, _ in changes:
        if change in _ADDS:
            count += 1
        elif change in _REMOVES:
            count -= 1
        else:
            count = 0
    return count
