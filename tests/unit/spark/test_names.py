"""Names: whatever MySQL allows becomes one part of a path, and one identifier."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.names import (
    catalog_name,
    encode_name,
    quote_identifier,
    quote_text,
)
from airflow_provider_binlog.staging import paths

NAMES = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=64)


@given(NAMES)
def test_names_are_encoded_as_capture_encodes_them(name: str) -> None:
    assert encode_name(name) == paths.encode_name(name)


@given(NAMES, NAMES)
def test_two_names_never_meet(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


def test_an_empty_name_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="needs a name"):
        encode_name("")


def test_a_backtick_and_a_quote_stay_inside() -> None:
    assert quote_identifier("a`b") == "`a``b`"
    assert quote_text("it's \\") == "'it\\'s \\\\'"


def test_a_name_in_a_catalog() -> None:
    assert catalog_name("{database}.{table}", database="a.b", table="c/d") == "`a%2Eb`.`c%2Fd`"
    assert catalog_name("cdc.{database}_{table}", database="a", table="b") == "`cdc`.`a_b`"


@pytest.mark.parametrize(
    "template", ["{database}", "{table}.", "{table.x}", "{0}.{table}", "{table", "{schema}.{table}"]
)
def test_another_template_is_refused(template: str) -> None:
    with pytest.raises(ConfigurationError, match="name"):
        catalog_name(template, database="a", table="b")
