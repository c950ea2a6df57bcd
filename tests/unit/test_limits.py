"""Limits: positive numbers of bytes, or sizes in words."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.limits import Limits


@pytest.mark.parametrize(
    "wrong",
    [0, -1, 1.5, "1", "0 MiB", "1 MB", "1.5 MiB", "-1 KiB", "１ MiB", "MiB", "", True, None],
)
@pytest.mark.parametrize("name", ["part_bytes_max", "pending_bytes_max", "prepared_bytes_max"])
def test_other_values_are_refused_when_checked(name: str, wrong: Any) -> None:
    limits = Limits(**{name: wrong})

    with pytest.raises(ConfigurationError, match=name):
        limits.check()


@pytest.mark.parametrize(
    ("words", "size"),
    [("1 B", 1), ("3KiB", 3 << 10), (" 256 MiB ", 256 << 20), ("2 GiB", 2 << 30), (7, 7)],
)
def test_a_size_is_given_in_bytes_or_words(words: Any, size: int) -> None:
    limits = Limits(part_bytes_max=words)
    limits.check()

    assert limits.part_bytes_max == size
    assert limits == Limits(part_bytes_max=size)
    assert hash(limits) == hash(Limits(part_bytes_max=size))


def test_defaults_are_those_of_the_documentation() -> None:
    assert Limits() == Limits("16 MiB", "48 MiB", "16 MiB")


def test_decoded_rows_may_take_more_than_their_events() -> None:
    assert Limits(part_bytes_max=10).decoded_bytes_max == 40
