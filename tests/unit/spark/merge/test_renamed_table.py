"""The lake table of a table's old name, and what of it the new one gets."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from airflow_provider_binlog.schema import RenameTable
from airflow_provider_binlog.spark.merge.renamed_table import OldTable, copy_rows, find_old_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.target.state import (
    CHANGES_ONLY,
    FIELDS,
    PROPERTY,
    TABLE_ID,
    UNSEEN,
    TargetState,
    live_property,
)
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.plan.table_plans import ID_N, lake
from tests.unit.spark.plans import NAME, ORDERS, manifest, statement, table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from airflow_provider_binlog.schema import TableName
    from airflow_provider_binlog.spark.target.protocol import Applied, Lake

NEW: TableName = ("shop", "new")
RENAMED = manifest(4, table(name=NEW), statements=[statement(10, RenameTable(ORDERS, NAME, NEW))])


class Tables:
    """A lake, and the session that sets the properties of its tables."""

    def __init__(self, **states: TargetState) -> None:
        self.states: dict[str, TargetState] = states
        self.statements: list[str] = []

    def target(self, _: str, name: str) -> str:
        return name

    def find_state(self, _: object, target: str) -> TargetState | None:
        return self.states.get(target)

    def create(
        self, _: object, target: str, columns: dict[str, str], properties: dict[str, str]
    ) -> None:
        self.states[target] = replace(
            lake(ID_N), columns=columns, properties=properties, contents=Contents(NOTHING)
        )

    def overwrite(
        self, _: object, target: str, state: TargetState, __: str, applied: Applied
    ) -> None:
        self.states[target] = replace(state, contents=Contents(applied.mark, applied.table))

    def sql(self, statement: str) -> None:
        self.statements.append(statement)


def find(state: TargetState) -> OldTable | None:
    tables: Any = Tables(orders=state)
    return find_old_table(tables, cast("Lake", tables), NEW, None, TableLog([RENAMED]))


def test_a_table_that_was_loaded_and_never_logged_takes_its_rows_along() -> None:
    unseen = lake(ID_N).properties | {TABLE_ID: UNSEEN, FIELDS: "{}"}
    found = find(replace(lake(ID_N), properties=unseen, contents=Contents(Mark(3), UNSEEN)))

    assert found is not None
    assert found.state.table == ORDERS
    assert find(replace(lake(ID_N), contents=Contents(Mark(3), "another"))) is None


def test_a_table_that_lost_a_column_is_not_copied() -> None:
    whole = lake(ID_N)
    without = {"id": "c1"}

    assert find(whole) is not None
    assert find(replace(whole, columns={"id": "int"}, column_ids=without)) is None


def test_what_the_old_table_lacks_the_new_one_lacks() -> None:
    properties: list[dict[str, str]] = [{}, live_property(CHANGES_ONLY)]
    for noted in properties:
        tables = Tables(orders=replace(lake(ID_N), properties=lake(ID_N).properties | noted))
        old = OldTable(NAME, "orders", tables.states["orders"])
        session = cast("SparkSession", tables)
        copy_rows(session, cast("Lake", tables), old, name=NEW, source="a", identity=IDENTITY)

        (statement,) = tables.statements
        assert (PROPERTY in statement) == bool(noted)
