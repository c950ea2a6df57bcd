"""Limits: positive whole numbers of bytes."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.capture.limits import Limits
from airflow_provider_binlog.errors import ConfigurationError


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "1", True, None])
@pytest.mark.parametrize("name", ["part_bytes_max", "pending_bytes_max", "prepared_bytes_max"])
def test_what_is_no_number_of_bytes_is_refused(name: str, wrong: Any) -> None:
    with pytest.raises(ConfigurationError, match=name):
        Limits(**{name: wrong})


def test_decoded_rows_may_take_more_than_their_events() -> None:
    assert Limits(part_bytes_max=10).decoded_bytes_max == 40
