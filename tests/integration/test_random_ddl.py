"""Random DDL on real servers, captured and merged: each table is right, or refused by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.random_ddl.run import run

if TYPE_CHECKING:
    from tests.support.pipeline import Pipeline


def test_each_table_equals_select_or_is_refused(pipeline: Pipeline) -> None:
    outcome = run(pipeline, "1", ranges=2, tables=3)

    assert outcome.equal > 0
