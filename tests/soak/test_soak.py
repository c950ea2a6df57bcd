"""A short soak: nothing is lost or staged twice where the capturing process is killed."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.soak.__main__ import SERVERS, soak


@pytest.mark.slow
@pytest.mark.server
@pytest.mark.parametrize("name", SERVERS)
def test_what_is_staged_equals_select_however_often_capture_was_killed(
    name: str, run_folder: Path
) -> None:
    assert "equal SELECT" in soak(name, run_folder / f"soak-{name}", seconds=20, seed=7)
