"""Weeks of three lakes with restores and kills: nothing needed is removed, and all else is."""

from __future__ import annotations

import pytest

from tests.soak.upkeep import Years


@pytest.mark.parametrize("seed", [2, pytest.param(1, marks=pytest.mark.slow)])
def test_nothing_that_is_needed_is_removed_and_all_else_is(seed: int) -> None:
    years = Years(seed)

    counted = years.run(20)

    # Cleanups that removed something, and some whose first manifest is known otherwise.
    assert counted["removed"] > 0
    assert counted["exact"] > 0
    assert counted["whole"] > 0
