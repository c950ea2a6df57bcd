"""Evolution: how a lake table's columns become those of the table, by field ids."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.schema import Default, Field, UnknownDefault
from airflow_provider_binlog.spark.plan.evolution import (
    Evolution,
    evolve_by_id,
    evolve_by_name,
)
from airflow_provider_binlog.spark.staged.types import spark_type
from tests.unit.spark.plans import column

if TYPE_CHECKING:
    from collections.abc import Iterable

ID = column(1, "id")
LAKE = {"id": "int", "a": "int", "b": "int"}
FIELDS = {1: "id", 2: "a", 3: "b"}


def wanted(fields: Iterable[Field]) -> dict[Field, str | None]:
    types = {field: field.arrow_type for field in fields}
    return {field: type_ and spark_type(type_) for field, type_ in types.items()}


def evolve(*fields: Field, **options: Any) -> Evolution:
    known: dict[str, Any] = {"columns": LAKE, "fields": FIELDS, "unfilled": (), "empty": False}
    return evolve_by_id(wanted((ID, *fields)), **known | options)


def test_nothing_changes() -> None:
    found = evolve(column(2, "a"), column(3, "b"))

    assert not found.changes_columns
    assert found.columns == {"id": "id", "a": "a", "b": "b"}


def test_columns_are_dropped_renamed_widened_and_added() -> None:
    found = evolve(column(3, "c", "int64"), column(4, "a"), column(5, "d", initial=Default("7")))

    assert found.dropped == ("a",)
    assert found.renamed == {"b": "c"}
    assert found.widened == {"c": "bigint"}
    assert found.added == {"a": "int", "d": "int"}
    assert found.filled == {"d": 7}
    assert found.columns == {"id": "id", "c": "b"}
    assert found.fields == {1: "id", 3: "c", 4: "a", 5: "d"}


def test_names_are_exchanged() -> None:
    found = evolve(column(2, "b"), column(3, "a"))

    assert (found.renamed, found.dropped, found.added) == ({"a": "b", "b": "a"}, (), {})


@pytest.mark.parametrize("initial", [UnknownDefault("it is NOW()"), None])
def test_an_unknown_initial_default_is_refused(initial: UnknownDefault | None) -> None:
    fields = column(2, "a"), column(3, "b"), column(4, "c", initial=initial)

    with pytest.raises(MergeError, match=r"a new column has a value in rows.*column=c"):
        evolve(*fields)
    assert evolve(*fields, empty=True).added == {"c": "int"}


def test_a_zero_date_is_no_initial_default() -> None:
    zero = Field(
        4, "d", "date", "date32[day]", nullable=False, initial_default=Default("0000-00-00")
    )

    with pytest.raises(MergeError, match="column=d"):
        evolve(column(2, "a"), column(3, "b"), zero)


def test_a_column_added_by_hand_is_taken_for_the_one_of_its_name() -> None:
    columns = LAKE | {"C": "int"}
    found = evolve(
        column(2, "a"),
        column(3, "b"),
        column(4, "c", initial=UnknownDefault("")),
        columns=columns,
    )

    assert (found.renamed, found.added) == ({"C": "c"}, {})


def test_a_column_that_is_not_filled_in_yet_is_filled() -> None:
    seven = column(4, "c", initial=Default("7"))
    found = evolve(column(2, "a"), column(3, "b"), seven, columns=LAKE | {"c": "int"}, unfilled={4})

    assert found.filled == {"c": 7}
    assert found.changes_columns


def test_a_column_of_no_field_is_refused() -> None:
    with pytest.raises(MergeError, match=r"columns that the table does not have.*column=x"):
        evolve(column(2, "a"), column(3, "b"), columns=LAKE | {"x": "int"})
    assert evolve(column(2, "a"), column(3, "b"), columns=LAKE | {"x": "int"}, empty=True).dropped


def test_a_type_that_the_lake_cannot_follow_is_refused() -> None:
    with pytest.raises(MergeError, match=r"type changed.*column=a, before=int, now=string"):
        evolve(column(2, "a", "string"), column(3, "b"))

    found = evolve(column(2, "a", "string"), column(3, "b"), empty=True)

    assert (found.dropped, found.added) == (("a",), {"a": "string"})


def test_a_column_whose_type_is_not_known_keeps_that_of_the_lake() -> None:
    assert not evolve(column(2, "a", None), column(3, "b")).changes_columns


def test_a_changelog_keeps_its_columns() -> None:
    found = evolve_by_name(
        wanted([column(2, "B", "int64"), column(4, "c", initial=Default("7"))]),
        columns={"a": "int", "b": "int"},
        empty=False,
    )

    assert (found.widened, found.added, found.filled) == ({"b": "bigint"}, {"c": "int"}, {})
    assert found.columns == {"a": "a", "b": "b"}
    with pytest.raises(MergeError, match="column=a"):
        retype_changelog(empty=False)


def test_a_changelog_whose_rows_are_replaced_gets_the_columns_of_the_new_ones() -> None:
    found = retype_changelog(empty=True)

    assert (found.dropped, found.added) == (("a", "old"), {"a": "string"})
    assert found.columns == {"b": "b"}


def retype_changelog(*, empty: bool) -> Evolution:
    columns = {"a": "int", "old": "int", "b": "bigint"}
    new = wanted([column(1, "a", "string"), column(2, "b", "int64")])
    return evolve_by_name(new, columns=columns, empty=empty)
