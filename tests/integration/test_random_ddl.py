"""Random DDL on real servers, captured and merged: each table is right, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.random_ddl.loading import run_loading
from tests.random_ddl.run import run

if TYPE_CHECKING:
    from tests.support.pipeline import Pipeline


def test_each_table_equals_select_or_is_refused(pipeline: Pipeline) -> None:
    outcome = run(pipeline, "1", ranges=2, tables=3)

    assert outcome.equal > 0


@pytest.mark.slow
def test_tables_that_are_older_than_the_log_are_loaded_while_they_change(
    pipeline: Pipeline,
) -> None:
    outcome = run_loading(pipeline, "1", ranges=2, tables=3)

    assert outcome.snapshots > 0
    assert outcome.equal > 0
