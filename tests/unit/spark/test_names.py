"""Names: whatever MySQL allows becomes one part of a path, and one identifier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.names import (
    catalog_name,
    postgresql_name,
    quote_text,
    shorten_name,
)
from airflow_provider_binlog.table_options import TableRules

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)


def test_a_quote_stays_inside() -> None:
    assert quote_text("it's \\") == "'it\\'s \\\\'"


def test_a_name_in_a_catalog() -> None:
    assert catalog_name("{database}.{table}", database="a.b", table="c/d") == "`a%2Eb`.`c%2Fd`"
    assert catalog_name("cdc.{database}_{table}", database="a", table="b") == "`cdc`.`a_b`"


def test_a_name_in_postgresql_is_kept_or_ends_in_a_hash() -> None:
    assert postgresql_name(TableRules(), "Shop", 'a"b.c') == '"Shop"."a""b.c"'
    rules = TableRules.read({"*": {"target": "dwh.{database}_{table}"}})
    assert postgresql_name(rules, "a.b", "c") == '"dwh"."a.b_c"'
    with pytest.raises(ConfigurationError, match="schema"):
        postgresql_name(TableRules.read({"*": {"target": "{table}"}}), "a", "b")


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64))
def test_postgresql_would_truncate_no_name(name: str) -> None:
    short = shorten_name(name)

    assert len(short.encode()) <= 63
    assert short == name or "~" in short


def test_columns_of_the_system_get_another_name() -> None:
    assert shorten_name("xmin").startswith("xmin~")
    assert shorten_name("é" * 32) != shorten_name("é" * 33)


@pytest.mark.parametrize(
    "template", ["{table}.", "{table.x}", "{0}.{table}", "{table", "{schema}.{table}"]
)
def test_another_template_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        catalog_name(template, database="a", table="b")
