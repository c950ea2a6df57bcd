"""BinlogSource: plain values, rendered field by field, and checked when a task runs."""

from __future__ import annotations

import json
from dataclasses import FrozenInstanceError
from typing import Any, get_args

import pytest

from airflow_provider_binlog.changes import BeforeImages, InvalidText, ZeroDates
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.sources import binlog_source
from airflow_provider_binlog.sources.binlog_source import BinlogSource, read_source

SHOP = BinlogSource("shop", start="earliest", files=["/a", "/b"], failover="follow")


def test_a_start_must_be_chosen() -> None:
    with pytest.raises(TypeError, match="start"):
        BinlogSource("shop")  # type: ignore[call-arg]


def test_it_is_frozen() -> None:
    with pytest.raises(FrozenInstanceError):
        SHOP.name = "crm"  # type: ignore[misc]


def test_its_plain_values_are_the_same_source() -> None:
    values = json.loads(json.dumps(SHOP.serialize()))

    assert read_source(values) == SHOP
    assert read_source(SHOP) is SHOP
    assert read_source({"name": "shop"}) == BinlogSource("shop", start=None)


def test_every_field_is_rendered() -> None:
    def render(value: Any) -> Any:
        return [f"{each}!" for each in value] if isinstance(value, list) else f"{value}!"

    rendered = SHOP.render(render)

    assert (rendered.name, rendered.start, rendered.files) == ("shop!", "earliest!", ["/a!", "/b!"])


@pytest.mark.parametrize(
    ("fields", "says"),
    [
        ({"name": ""}, "a source has a name"),
        ({"failover": "maybe"}, "failover is one of refuse, follow .given=maybe"),
        ({"zero_dates": "maybe"}, "zero_dates is one of null, fail, text"),
        ({"invalid_text": "maybe"}, "invalid_text is one of fail, replace, binary"),
        ({"colour": "red"}, "source is a BinlogSource, or a mapping of its fields: conn_id"),
    ],
)
def test_fields_that_cannot_be_used_are_refused(fields: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        read_source({"name": "shop", **fields})


@pytest.mark.parametrize("value", ["shop", None, {}, {"start": "now"}, 5])
def test_other_values_are_no_source(value: Any) -> None:
    with pytest.raises(ConfigurationError, match="source is a BinlogSource"):
        read_source(value)


@pytest.mark.parametrize(
    ("literal", "enum"),
    [
        (binlog_source.BeforeImagesChoice, BeforeImages),
        (binlog_source.ZeroDatesChoice, ZeroDates),
        (binlog_source.InvalidTextChoice, InvalidText),
    ],
)
def test_the_choices_are_those_of_the_manifest(literal: Any, enum: Any) -> None:
    assert list(get_args(literal)) == [each.value for each in enum]
