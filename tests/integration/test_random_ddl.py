"""Random DDL on real servers, captured and merged: each table is right, or refused by name."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from tests.random_ddl.disturbances import disturb_merges
from tests.random_ddl.loading import run_loading
from tests.random_ddl.options import draw_options
from tests.random_ddl.run import Outcome, run

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pipeline import Pipeline

_slow = pytest.mark.slow


def test_each_table_equals_select_or_is_refused(pipeline: Pipeline) -> None:
    outcome = run(pipeline, "1", ranges=2, tables=3)

    assert outcome.equal > 0


@pytest.mark.parametrize(
    ("kind", "release", "seed"),
    [
        pytest.param("mysql97", "postgresql18", "2", marks=_slow),
        pytest.param("mariadb118", "postgresql15", "3", marks=_slow),
    ],
)
def test_each_table_in_postgresql_equals_select_or_is_refused(
    kind: str, release: str, seed: str, create_pipeline: Callable[..., Pipeline]
) -> None:
    outcome = run(create_pipeline(kind, release), seed, ranges=4, tables=4)

    assert outcome.equal > 0


@pytest.mark.parametrize(
    ("kind", "format_"),
    [
        ("mysql97", "iceberg"),
        pytest.param("mysql97", "delta", marks=_slow),
        pytest.param("mysql80", "iceberg", marks=_slow),
        pytest.param("mariadb1011", "iceberg", marks=_slow),
        pytest.param("mariadb118", "delta", marks=_slow),
        pytest.param("mysql97", "postgresql18", marks=_slow),
    ],
)
def test_tables_that_are_older_than_the_log_are_loaded_while_they_change(
    kind: str, format_: str, create_pipeline: Callable[..., Pipeline]
) -> None:
    outcome = run_loading(create_pipeline(kind, format_), "1", ranges=1, tables=2)

    assert outcome.snapshots > 0
    assert outcome.equal > 0


@_slow
@pytest.mark.parametrize(
    ("kind", "format_"),
    [("mysql97", "iceberg"), ("mariadb118", "delta"), ("mysql97", "postgresql18")],
)
@pytest.mark.parametrize("begin", [run, run_loading])
def test_any_options_while_merges_are_killed_and_run_at_the_same_time(
    kind: str,
    format_: str,
    begin: Callable[..., Outcome],
    create_pipeline: Callable[..., Pipeline],
) -> None:
    pipeline = create_pipeline(kind, format_)
    pipeline.table_options = draw_options(Random("options 4"))
    disturb_merges(pipeline, Random("disturbance 4"))

    outcome = begin(pipeline, "4", ranges=3, tables=3)

    assert outcome.equal > 0
