"""Names: whatever MySQL allows becomes one part of a path, and one identifier."""

from __future__ import annotations

import pytest
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.names import (
    catalog_name,
    quote_text,
)

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)


def test_a_quote_stays_inside() -> None:
    assert quote_text("it's \\") == "'it\\'s \\\\'"


def test_a_name_in_a_catalog() -> None:
    assert catalog_name("{database}.{table}", database="a.b", table="c/d") == "`a%2Eb`.`c%2Fd`"
    assert catalog_name("cdc.{database}_{table}", database="a", table="b") == "`cdc`.`a_b`"


@pytest.mark.parametrize(
    "template", ["{table}.", "{table.x}", "{0}.{table}", "{table", "{schema}.{table}"]
)
def test_another_template_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        catalog_name(template, database="a", table="b")
