"""The checkpoint moves only forward, only from where it was thought to be, never by default."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    at_manifest,
    covering_staged,
    load,
    overwrite,
    rebuild,
    unless_only_a_start,
)
from airflow_provider_binlog.errors import (
    CheckpointError,
    CheckpointMissingError,
    ManifestError,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.stored_json import digest_of_values
from tests.contract.checkpoint import IDENTITY, KEY, CheckpointStoreCases, checkpoint
from tests.support.stores import Checkpoints, open_store
from tests.unit.staging.manifests import manifest


class TestCheckpoints(CheckpointStoreCases):
    """The fake that other tests use keeps the contract too."""

    @pytest.fixture
    def checkpoints(self) -> Checkpoints:
        return Checkpoints()


STORED = """\
{"format": "airflow-provider-binlog/checkpoint", "version": 1,
 "source": {"flavor": "mysql", "log_name": "binlog",
  "server": "fabf987e-e54b-11f1-bec6-02fc00000001"},
 "position": {"file": "binlog.000001", "offset": 1004,
  "gtid": "fabf987e-e54b-11f1-bec6-02fc00000001:1-2"},
 "sequence": 1, "saved_at": "2026-11-21T00:00:00+00:00", "saved_by": "run",
 "digest": "db2d05856ac8ad282d347b32064f5381a6ab9392a75e10826311844edbe7dd10"}"""


def with_digest(value: dict[str, Any]) -> str:
    """Return a stored checkpoint that has the digest of its values."""
    rest = {name: each for name, each in value.items() if name != "digest"}
    return json.dumps(rest | {"digest": digest_of_values(rest)})


def test_reads_the_stored_form() -> None:
    assert Checkpoint.decode(STORED) == checkpoint(1)
    assert json.loads(checkpoint(1).encode()) == json.loads(STORED)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "other"}, "not a checkpoint"),
        ({"version": 2}, "another version.*version=2"),
        ({"sequence": -1}, "not a checkpoint"),
        ({"sequence": "1"}, "not a checkpoint"),
        ({"source": {}}, "not a checkpoint"),
        ({"position": {"file": "binlog.000001", "offset": 3}}, "not a checkpoint"),
        ({"position": {"file": "binlog", "offset": 4}}, "not a checkpoint"),
        ({"position": {"file": f"binlog.{'9' * 5000}", "offset": 4}}, "not a checkpoint"),
    ],
)
def test_refuses_an_invalid_checkpoint(change: dict[str, Any], says: str) -> None:
    store = Checkpoints({KEY: with_digest(json.loads(STORED) | change)})

    with pytest.raises(CheckpointError, match=f"{says}.*key={KEY}"):
        load(store, KEY)


@pytest.mark.parametrize("field", json.loads(STORED))
def test_every_field_is_required(field: str) -> None:
    value = json.loads(STORED)
    del value[field]

    with pytest.raises(CheckpointError):
        Checkpoint.decode(json.dumps(value) if field == "digest" else with_digest(value))


def test_an_edited_one_is_refused_and_one_that_was_formatted_again_is_not() -> None:
    value = json.loads(STORED)
    value["position"]["offset"] += 1

    with pytest.raises(CheckpointError, match=r"edited.*`airflow binlog checkpoint set`"):
        Checkpoint.decode(json.dumps(value))
    assert Checkpoint.decode(json.dumps(json.loads(STORED), sort_keys=True)) == checkpoint(1)


def test_deeply_nested_json_is_refused() -> None:
    with pytest.raises(CheckpointError):
        Checkpoint.decode("[" * 100_000)


@given(st.text() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_text_is_a_checkpoint_or_a_checkpoint_error(text: str) -> None:
    with pytest.raises(CheckpointError):
        Checkpoint.decode(text)


def test_a_store_that_hides_what_was_set_is_detected() -> None:
    class Shadowed(Checkpoints):
        def set(self, key: str, value: str) -> None:
            """Lose `value`."""

    store = Shadowed({KEY: checkpoint(1).encode()})

    with pytest.raises(CheckpointError, match=f"reads differently.*key={KEY}"):
        overwrite(store, KEY, checkpoint(2))


def test_same_position_compares_coordinates_alone() -> None:
    one = checkpoint(1)
    unknown_gtid = dataclasses.replace(one.position, gtid=None)

    assert one.same_position(dataclasses.replace(one, saved_by="x", saved_at="y"))
    assert one.same_position(dataclasses.replace(one, position=unknown_gtid))
    assert not one.same_position(dataclasses.replace(one, sequence=2))
    assert not one.same_position(dataclasses.replace(one, position=Position("binlog.000002", 1004)))
    assert not one.same_position(None)


def test_rebuilds_from_the_newest_manifest(tmp_path: object) -> None:
    log = ManifestLog(open_store(f"file://{tmp_path}"), "shop")
    with pytest.raises(CheckpointMissingError):
        rebuild(log, saved_at="now", saved_by="me")
    for sequence in (1, 2):
        log.commit(manifest(sequence))

    assert rebuild(log, saved_at="now", saved_by="me") == Checkpoint(
        IDENTITY, manifest(2).stop, 2, "now", "me"
    )


def test_the_start_of_the_oldest_manifest_is_covered_by_those_that_were_removed(
    tmp_path: Path,
) -> None:
    log = ManifestLog(open_store(f"file://{tmp_path}"), "shop")
    for sequence in (1, 2, 3):
        log.commit(manifest(sequence))
    covered = [at_manifest(log, sequence, saved_at="now", saved_by="me") for sequence in range(4)]

    (tmp_path / log.key(1)).unlink()
    (tmp_path / log.key(2)).unlink()

    assert [checkpoint.sequence for checkpoint in covered] == [0, 1, 2, 3]
    assert covered[0].position == manifest(1).start
    assert at_manifest(log, 2, saved_at="now", saved_by="me") == covered[2]
    with pytest.raises(ManifestError, match="a manifest is missing"):
        at_manifest(log, 1, saved_at="now", saved_by="me")


def test_the_checkpoint_of_what_is_staged_is_past_one_that_a_merge_holds_back(
    tmp_path: object,
) -> None:
    log = ManifestLog(open_store(f"file://{tmp_path}"), "shop")
    assert covering_staged(None, log) is None
    assert covering_staged(checkpoint(1), log) == checkpoint(1)
    for sequence in (1, 2):
        log.commit(manifest(sequence))

    staged = covering_staged(checkpoint(1), log)

    assert staged is not None
    assert (staged.position, staged.sequence) == (manifest(2).stop, 2)


@pytest.mark.parametrize(
    ("sequence", "start", "found"),
    [
        (0, "earliest", False),
        (0, {"start": {}}, False),
        (0, "now", True),
        (0, None, True),
        (1, "earliest", True),
    ],
)
def test_a_start_is_read_again_until_something_is_staged(
    sequence: int, start: Any, *, found: bool
) -> None:
    saved = dataclasses.replace(Checkpoint.decode(STORED), sequence=sequence)

    assert unless_only_a_start(saved, start) == (saved if found else None)
    assert unless_only_a_start(None, start) is None
