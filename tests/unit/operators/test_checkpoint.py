"""BinlogCheckpointOperator reads what the extract operator returned."""

from __future__ import annotations

import json
from typing import Any

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.operators.extract import read_staged
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity

IDENTITY = SourceIdentity(Flavor.MYSQL, "4f1e0000-0000-0000-0000-000000000001", "binlog")
FOUND = Checkpoint(IDENTITY, Position("binlog.000001", 4), 3, "2026-11-21T00:00:00+00:00", "a run")
STAGED = {
    "source": "shop",
    "identity": IDENTITY.to_json(),
    "stop": {"file": "binlog.000002", "offset": 157, "gtid": "g:1-7"},
    "last_sequence": 5,
    "checkpoint": json.loads(FOUND.encode()),
}


def test_the_checkpoint_moves_from_where_it_was_found_to_where_the_range_stops() -> None:
    source, expected, new = read_staged(STAGED, saved_by="this run")

    assert (source, expected) == ("shop", FOUND)
    assert (new.identity, new.position) == (IDENTITY, Position("binlog.000002", 157, "g:1-7"))
    assert (new.sequence, new.saved_by) == (5, "this run")


@pytest.mark.parametrize("missing", STAGED)
def test_every_field_is_needed(missing: str) -> None:
    staged: dict[str, Any] = {name: value for name, value in STAGED.items() if name != missing}

    with pytest.raises(ConfigurationError, match=missing):
        read_staged(staged, saved_by="this run")
