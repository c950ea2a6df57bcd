"""A lake table follows one table of one source."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.properties import Owner, check_owner
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, TargetState
from tests.unit.spark.history import IDENTITY

if TYPE_CHECKING:
    from airflow_provider_binlog.position import SourceIdentity

NAME = ("shop", "orders")


def state(source: str) -> TargetState:
    properties = Owner(source, IDENTITY, NAME).properties
    return TargetState({}, {}, properties, Contents(NOTHING), 0, 0, True, 0)


@pytest.mark.parametrize("servers", [(), (IDENTITY,)])
def test_before_the_first_manifest_the_source_alone_is_compared(
    servers: tuple[SourceIdentity, ...],
) -> None:
    check_owner("t", state("shop"), source="shop", servers=servers, name=NAME)

    with pytest.raises(MergeError, match="does not follow"):
        check_owner("t", state("crm"), source="shop", servers=servers, name=NAME)
