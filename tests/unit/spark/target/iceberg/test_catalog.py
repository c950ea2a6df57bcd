"""What the merge has Iceberg do, where catalogs differ."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import PySparkException

from airflow_provider_binlog.errors import TargetConflictError
from airflow_provider_binlog.spark.target.iceberg.catalog import IcebergLake
from airflow_provider_binlog.spark.target.state import Contents, Mark
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from collections.abc import Callable

TARGET = "`lake`.`shop`.`orders`"
COLUMNS = {"id": "int", "note": "string"}
CHANGE: Any = SimpleNamespace(
    table=TARGET,
    columns=COLUMNS,
    owner=SimpleNamespace(source="shop", name=("shop", "t")),
    contents=Contents(Mark(7)),
    base=None,
    stop="binlog.000002:4",
    rows=SimpleNamespace(rows=SimpleNamespace(bytes=1000)),
)


class Catalog:
    """A session whose catalog answers a CREATE TABLE with rows so."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.statements: list[str] = []
        self.conf = SimpleNamespace(set=lambda *_: None, unset=lambda *_: None)

    def sql(self, statement: str) -> SimpleNamespace:
        """Run a statement."""
        if " AS SELECT " in statement:
            raise PySparkException(self.answer)
        self.statements.append(statement)
        return SimpleNamespace(collect=list)


@pytest.fixture
def create_as(monkeypatch: pytest.MonkeyPatch) -> Callable[[Catalog, object], list[Any]]:
    """Create a table whose state is this then; return what is written to it in another commit."""

    def create(catalog: Catalog, state: object) -> list[Any]:
        written: list[Any] = []
        lake = IcebergLake("shop", "lake", TableRules(), {})
        monkeypatch.setattr(lake, "find_state", lambda *_: state)
        monkeypatch.setattr(lake, "overwrite", lambda *given: written.append(given[1:]))
        session: Any = catalog
        lake.create_as(session, CHANGE, {"owner": "shop"})
        return written

    return create


@pytest.mark.parametrize(
    "answer",
    [
        "Malformed request: Stage create is not supported",
        "Unable to process: Stage-create is currently not supported.",
        "(code: 406, type: UnsupportedOperationException): stage-create is not supported",
    ],
)
def test_a_catalog_that_creates_no_table_with_rows_gets_them_in_a_second_commit(
    create_as: Callable[[Catalog, object], list[Any]], answer: str
) -> None:
    catalog, state = Catalog(answer), object()

    written = create_as(catalog, state)

    (statement,) = [each for each in catalog.statements if each.startswith("CREATE TABLE ")]
    assert statement.startswith(f"CREATE TABLE {TARGET} (`id` int, `note` string) USING iceberg")
    query = "SELECT c0 AS `id`, c1 AS `note` FROM binlog_changes WHERE NOT deleted"
    assert written == [(CHANGE, state, query)]


def test_what_else_a_catalog_answers_creates_nothing(
    create_as: Callable[[Catalog, object], list[Any]],
) -> None:
    catalog = Catalog("Malformed request: the name is too long")

    with pytest.raises(PySparkException, match="too long"):
        create_as(catalog, object())

    assert not any(each.startswith("CREATE TABLE ") for each in catalog.statements)


def test_a_table_that_is_dropped_before_it_has_rows_is_a_conflict(
    create_as: Callable[[Catalog, object], list[Any]],
) -> None:
    with pytest.raises(TargetConflictError, match="dropped the target"):
        create_as(Catalog("Stage create is not supported"), None)
