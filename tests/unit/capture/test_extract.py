"""Extracts: manifest after manifest, reused by a retry, and of two runs one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.errors import ConfigurationError, ConflictError, ManifestError
from airflow_provider_binlog.position import FIRST_OFFSET, Position
from tests.support.builder import SERVER_UUID
from tests.support.requests import a_request
from tests.unit.capture.staging import CutSource, end_of, file_source, new_store
from tests.unit.capture.whole_logs import CHANGE, IDENTITY, a_log, run, stage, transaction

if TYPE_CHECKING:
    from typing import Any


def test_nothing_to_stage() -> None:
    files = a_log(transaction(1, *CHANGE))

    staged = stage(files, end_of(files), end_of(files), new_store())

    assert staged.manifests == ()
    assert staged.start == staged.stop == end_of(files)


def test_a_range_without_transactions_that_something_waits_for_is_staged_once() -> None:
    files = a_log(transaction(1, *CHANGE))
    end, store = end_of(files), new_store()

    first = stage(files, end, end, store, even_empty=True)
    again = stage(files, end, end, store, even_empty=True, created_by="another")

    (manifest,) = first.manifests
    assert (manifest.start.coordinates, manifest.tables) == (end.coordinates, ())
    assert manifest.stop == manifest.start
    assert again == first


def test_a_repeated_run_reuses_and_continues() -> None:
    files = a_log(transaction(1, *CHANGE) + transaction(2, *CHANGE))
    start = Position("binlog.000001", FIRST_OFFSET)
    middle = Position("binlog.000001", files["binlog.000001"].offsets[7])
    store = new_store()

    first = stage(files, start, middle, store, created_by="one")
    again = stage(files, start, middle, store, created_by="two")
    further = stage(files, start, end_of(files), store, created_by="three")

    assert again == first
    assert [each.created_by for each in further.manifests] == ["one", "three"]
    assert [each.sequence for each in further.manifests] == [1, 2]
    assert further.manifests[1].start == first.manifests[0].stop
    assert further.stop.coordinates == end_of(files).coordinates


def test_a_checkpoint_whose_manifest_is_missing_is_refused_before_anything_is_staged() -> None:
    """As where the staging path was changed, or a store expired its newest manifest."""
    files = a_log(transaction(1, *CHANGE))
    start = Position("binlog.000001", FIRST_OFFSET)

    with pytest.raises(ManifestError, match="manifest that the checkpoint covers is not there"):
        stage(files, start, end_of(files), new_store(), sequence=6)


def test_two_runs_at_once_agree() -> None:
    files = a_log(transaction(1, *CHANGE) + transaction(2, *CHANGE))
    start = Position("binlog.000001", FIRST_OFFSET)
    middle = Position("binlog.000001", files["binlog.000001"].offsets[7])
    store = new_store()

    class Racing(CutSource):
        """While one run reads, another one stages a shorter range."""

        def blocks(self, start: Position, stop: Position | None = None) -> Any:
            if start.offset == FIRST_OFFSET:
                stage(files, start, middle, store, created_by="the faster one")
            return file_source(files).blocks(start, stop)

    staged = extract(
        a_request(start, end_of(files), identity=IDENTITY, created_by="the slower one"),
        Racing(files, {}),
        store,
    )

    assert [each.created_by for each in staged.manifests] == ["the faster one", "the slower one"]
    assert [each.rows for each in staged.manifests] == [1, 1]


def test_a_number_that_another_range_has_is_refused() -> None:
    files = a_log(transaction(1, *CHANGE) + transaction(2, *CHANGE))
    middle = Position("binlog.000001", files["binlog.000001"].offsets[7])
    store = new_store()
    stage(files, Position("binlog.000001", FIRST_OFFSET), end_of(files), store)

    with pytest.raises(ConflictError, match="taken by another range"):
        stage(files, middle, end_of(files), store)


def test_more_tables_than_were_staged_are_not_reused() -> None:
    files = a_log(transaction(1, *CHANGE))
    start, store = Position("binlog.000001", FIRST_OFFSET), new_store()
    stage(files, start, end_of(files), store, tables=TableFilter(["shop.a"]))

    with pytest.raises(ConfigurationError, match="fewer tables"):
        stage(files, start, end_of(files), store, tables=TableFilter(["shop.a", "crm.*"]))


def test_gtid_sets_of_the_manifest_are_those_of_the_log() -> None:
    files = a_log(transaction(1, *CHANGE), transaction(2, *CHANGE))

    assert run(files).stop.gtid == f"{SERVER_UUID}:1-2"
