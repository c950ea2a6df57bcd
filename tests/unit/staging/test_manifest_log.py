"""The log of manifests: it only grows, without gaps, and of two writers one wins."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import ConflictError, ManifestError, StoreUnavailableError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from tests.support.staged import manifests_after
from tests.support.stores import open_store
from tests.unit.staging.manifests import IDENTITY, manifest, position

if TYPE_CHECKING:
    from pathlib import Path

OTHER = SourceIdentity(Flavor.MYSQL, "other", "x")
MARIADB = dataclasses.replace(IDENTITY, flavor=Flavor.MARIADB)


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """A store on files."""
    return open_store(f"file://{tmp_path}")


@pytest.fixture
def log(store: ObjectStore) -> ManifestLog:
    """The empty log of a source."""
    return ManifestLog(store, "shop")


def commit_manifests(log: ManifestLog, count: int) -> list[Manifest]:
    """Commit manifests 1 to `count`."""
    manifests = [manifest(sequence) for sequence in range(1, count + 1)]
    for each in manifests:
        log.commit(each)
    return manifests


def test_an_empty_log(log: ManifestLog) -> None:
    assert log.latest() is None
    assert log.sequences() == []
    assert list(manifests_after(log, 0)) == []


def test_committed_manifests_are_read_back_in_order(log: ManifestLog) -> None:
    manifests = commit_manifests(log, 3)

    assert log.sequences() == [1, 2, 3]
    assert log.latest() == manifests[2]
    assert log.load(2) == manifests[1]
    assert list(manifests_after(log, 0)) == manifests
    assert list(manifests_after(log, 2)) == manifests[2:]
    assert list(manifests_after(log, 3)) == []


def test_the_key_is_the_sequence_number(log: ManifestLog, store: ObjectStore) -> None:
    assert log.commit(manifest(1)) == "shop/manifests/0000000000000001.json"
    assert Manifest.decode(store.read("shop/manifests/0000000000000001.json")) == manifest(1)


def test_other_files_in_the_folder_are_ignored(log: ManifestLog, store: ObjectStore) -> None:
    commit_manifests(log, 1)
    store.write("shop/manifests/_SUCCESS", b"")
    store.write("shop/manifests/zzz.json", b"")

    assert log.latest() == manifest(1)


def test_the_newest_of_thousands_costs_one_listing_and_one_read() -> None:
    class Counting:
        reads = 0

        def list(self, folder: str) -> list[str]:
            assert folder == "shop/manifests"
            return [f"{sequence:016}.json" for sequence in range(1, 5001)]

        def read(self, key: str) -> bytes:
            self.reads += 1
            assert key == "shop/manifests/0000000000005000.json"
            return manifest(5000).encode()

    counting = Counting()
    latest = ManifestLog(counting, "shop").latest()  # type: ignore[arg-type]

    assert latest == manifest(5000)
    assert counting.reads == 1


def test_committing_again_after_a_lost_response_changes_nothing(log: ManifestLog) -> None:
    commit_manifests(log, 2)

    assert log.commit(manifest(2)) == log.key(2)


def test_a_sequence_number_is_committed_once(log: ManifestLog) -> None:
    commit_manifests(log, 2)

    with pytest.raises(ConflictError, match=r"0000000000000002\.json"):
        log.commit(manifest(2, created_by="another run"))
    assert log.latest() == manifest(2)


def test_commit_refuses_a_gap(log: ManifestLog) -> None:
    commit_manifests(log, 1)

    with pytest.raises(ManifestError, match=r"a manifest is missing.*0000000000000002\.json"):
        log.commit(manifest(3))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"start": Position("binlog.000001", 2000)}, "start where the one before it stops"),
        ({"start": Position("binlog.000002", 1004)}, "start where the one before it stops"),
        ({"identity": OTHER, "start": Position("x.000001", 4, "other:1")}, "different servers"),
        ({"identity": OTHER, "start": Position("binlog.000001", 1004)}, "different servers"),
        ({"identity": OTHER, "start": Position("x.000001", 4, "")}, "different servers"),
        ({"identity": MARIADB, "start": position(1)}, "different servers"),
    ],
)
def test_commit_refuses_a_manifest_that_does_not_continue_the_log(
    log: ManifestLog, change: dict[str, object], says: str
) -> None:
    commit_manifests(log, 1)

    with pytest.raises(ManifestError, match=says):
        log.commit(dataclasses.replace(manifest(2), **change))  # type: ignore[arg-type]
    assert log.sequences() == [1]


def test_a_promoted_replica_continues_at_the_same_gtids(log: ManifestLog) -> None:
    commit_manifests(log, 1)
    start = Position("x.000009", 4711, position(1).gtid, logged="")
    there = dataclasses.replace(manifest(2), identity=OTHER, start=start)

    log.commit(there)

    assert list(manifests_after(log, 0)) == [manifest(1), there]
    assert log.reuse(2, IDENTITY, position(1)) == there
    assert log.reuse(2, OTHER, start) == there


def test_positions_are_compared_by_coordinates(log: ManifestLog) -> None:
    commit_manifests(log, 1)

    log.commit(dataclasses.replace(manifest(2), start=Position("binlog.000001", 1004, None)))


def test_a_file_that_was_created_again_is_another_position(log: ManifestLog) -> None:
    created = dataclasses.replace(position(1), file_created=1_700_000_000)
    log.commit(dataclasses.replace(manifest(1), stop=created))
    again = dataclasses.replace(created, file_created=1_700_000_001)

    with pytest.raises(ManifestError, match="start where the one before it stops"):
        log.commit(dataclasses.replace(manifest(2), start=again))
    log.commit(dataclasses.replace(manifest(2), start=created))
    with pytest.raises(ConflictError, match="taken by another range"):
        log.reuse(2, IDENTITY, again)
    assert log.reuse(2, IDENTITY, position(1)) == log.load(2)
    assert log.load(2).start.file_created == created.file_created


def test_a_missing_number_is_refused(log: ManifestLog, tmp_path: Path) -> None:
    commit_manifests(log, 4)
    (tmp_path / log.key(3)).unlink()

    following = manifests_after(log, 1)
    assert next(following) == manifest(2)
    with pytest.raises(ManifestError, match=r"missing.*0000000000000003\.json"):
        next(following)
    with pytest.raises(ManifestError, match="missing"):
        next(manifests_after(log, 2))


def test_a_break_is_refused(log: ManifestLog, store: ObjectStore) -> None:
    commit_manifests(log, 2)
    broken = dataclasses.replace(manifest(3), start=position(1))
    store.write(log.key(3), broken.encode())

    with pytest.raises(ManifestError, match="start where"):
        list(manifests_after(log, 0))
    with pytest.raises(ManifestError, match="start where"):
        list(manifests_after(log, 2))


def test_manifests_that_retention_deleted_are_not_needed(log: ManifestLog, tmp_path: Path) -> None:
    commit_manifests(log, 3)
    (tmp_path / log.key(1)).unlink()
    (tmp_path / log.key(2)).unlink()

    assert list(manifests_after(log, 2)) == [manifest(3)]


@pytest.mark.parametrize("data", [b"", b"{", b"[]", b"null", b'{"format": "x"}', b"\xff\x00"])
def test_an_unreadable_manifest_is_named(log: ManifestLog, store: ObjectStore, data: bytes) -> None:
    store.write(log.key(1), data)

    with pytest.raises(ManifestError, match=r"manifest=shop/manifests/0000000000000001\.json"):
        log.load(1)


def test_a_manifest_under_the_wrong_key_is_refused(log: ManifestLog, store: ObjectStore) -> None:
    store.write(log.key(1), manifest(2).encode())

    with pytest.raises(ManifestError, match="another's name"):
        log.load(1)


def test_reuses_the_manifest_that_covers_the_range(log: ManifestLog) -> None:
    commit_manifests(log, 2)

    assert log.reuse(2, IDENTITY, Position("binlog.000001", 1004)) == manifest(2)
    assert log.reuse(3, IDENTITY, position(2)) is None


@pytest.mark.parametrize(
    ("identity", "start"),
    [
        (IDENTITY, position(0)),
        (IDENTITY, Position("binlog.000002", 1004)),
        (OTHER, Position("x.000001", 4, position(0).gtid)),
        (OTHER, Position("x.000001", 4)),
    ],
)
def test_does_not_reuse_another_range(
    log: ManifestLog, identity: SourceIdentity, start: Position
) -> None:
    commit_manifests(log, 2)

    with pytest.raises(ConflictError, match="taken by another range"):
        log.reuse(2, identity, start)


def test_a_store_that_fails_is_not_an_empty_log() -> None:
    class Down:
        def list(self, folder: str) -> list[str]:
            raise StoreUnavailableError("the store failed", key=folder)

    with pytest.raises(StoreUnavailableError):
        ManifestLog(Down(), "shop").latest()  # type: ignore[arg-type]
