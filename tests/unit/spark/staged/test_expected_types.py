"""The type that a statement says is the one that rows are staged in afterwards."""

from __future__ import annotations

from itertools import product
from types import SimpleNamespace
from typing import Any

import pytest

from airflow_provider_binlog.changes import InvalidText, Policies, ZeroDates
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema import NULL, Default, Field
from airflow_provider_binlog.spark.staged.types import expected_arrow_type
from tests.unit.rows import wire
from tests.unit.test_docs import COLUMNS

WAITING = {
    *("geometry", "point", "linestring", "polygon", "multipoint", "multilinestring"),
    *("multipolygon", "geomcollection", "vector(3)", "uuid", "inet4", "inet6"),
}


def expected(mysql_type: str | None, charset: str | None, policies: Policies) -> str | None:
    manifest: Any = SimpleNamespace(**vars(policies))
    field = Field(1, "c", mysql_type, None, nullable=True, charset=charset)
    return expected_arrow_type(field, manifest)


@pytest.mark.parametrize(("zero_dates", "invalid_text"), [*product(ZeroDates, InvalidText)])
def test_a_column_is_staged_as_expected(zero_dates: ZeroDates, invalid_text: InvalidText) -> None:
    policies = Policies(zero_dates, invalid_text)
    tables = (wire.table(each) for each in COLUMNS)
    layouts = [compile_layout(each, policies=policies).columns[0] for each in tables]

    found = {
        each.mysql_type: (expected(each.mysql_type, each.charset, policies), str(each.arrow_type))
        for each in layouts
    }

    assert {type_ for type_, (each, _) in found.items() if each is None} == WAITING
    assert [each for each, _ in found.values() if each] == [
        staged for each, staged in found.values() if each
    ]


@pytest.mark.parametrize(
    ("mysql_type", "charset"), [(None, None), ("char(9)", "binary"), ("decimal", None)]
)
def test_what_is_not_certain_waits(mysql_type: str | None, charset: str | None) -> None:
    assert expected(mysql_type, charset, Policies()) is None


@pytest.mark.parametrize(
    ("default", "charset", "staged"),
    [
        (Default("new"), None, None),
        (Default("new"), "utf16", "binary"),
        (Default(""), None, "binary"),
        (NULL, None, "binary"),
    ],
)
def test_text_as_bytes_waits_for_the_character_set_of_its_default(
    default: Default, charset: str | None, staged: str | None
) -> None:
    manifest: Any = SimpleNamespace(**vars(Policies(invalid_text=InvalidText.BINARY)))
    field = Field(1, "c", "char(9)", None, True, charset, initial_default=default)

    assert expected_arrow_type(field, manifest) == staged
