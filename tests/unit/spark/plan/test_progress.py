"""Progress: it saves reading, and never hides a table that lags behind."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import End, Manifest
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.spark.plan.progress import (
    Progress,
    TableProgress,
    load_progress,
    progress_path,
    save_progress,
)
from tests.unit.spark.history import IDENTITY, LOG
from tests.unit.spark.plans import manifest


class Files:
    """Files in memory."""

    def __init__(self) -> None:
        self.data: dict[str, bytes] = {}

    def read(self, path: str) -> bytes | None:
        return self.data.get(path)

    def size(self, path: str) -> int | None:
        return len(self.data[path]) if path in self.data else None

    def list(self, folder: str) -> list[str]:
        return [path for path in self.data if path.startswith(folder)]

    def write(self, path: str, data: bytes) -> None:
        self.data[path] = data

    def locate(self, path: str) -> str:
        return f"memory:/{path}"


BEFORE = replace(IDENTITY, server="before")
AFTER = replace(IDENTITY, server="after")
PROGRESS = Progress(
    end=End(7, IDENTITY, Position(LOG, 8000, "u:1-8")),
    servers=(IDENTITY, BEFORE),
    tables={("shop", "ü"): TableProgress(5, 7), ("shop", "waits"): TableProgress(2, 4)},
)


def test_what_was_saved_is_loaded() -> None:
    files = Files()
    save_progress(files, "x", PROGRESS)

    assert load_progress(files, "x") == PROGRESS
    assert load_progress(files, "y") == Progress()


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"format": "x", "version": 1}', b"\xff"])
def test_another_file_is_refused(data: bytes) -> None:
    files = Files()
    files.write("x", data)

    with pytest.raises(ManifestError, match="memory:/x"):
        load_progress(files, "x")


@pytest.mark.parametrize(
    ("name", "applied", "first"),
    [
        ("ü", 5, 8),
        ("ü", 6, 8),
        ("ü", 9, 10),
        ("ü", 0, 1),
        ("ü", 4, 5),
        ("waits", 2, 5),
        ("new", 0, 8),
        ("new", 9, 10),
    ],
)
def test_the_first_manifest_that_is_needed(name: str, applied: int, first: int) -> None:
    assert PROGRESS.first_needed(("shop", name), applied) == first


def test_each_target_has_its_own() -> None:
    assert progress_path(lake="a", tables=["*"]) != progress_path(lake="b", tables=["*"])
    assert progress_path(lake="a", tables=["*"]) == progress_path(tables=["*"], lake="a")


def started_by(server: SourceIdentity, start: Position) -> Manifest:
    return replace(manifest(8), identity=server, start=start)


def test_a_manifest_must_follow_what_was_merged() -> None:
    Progress().check_follows(manifest(1))
    PROGRESS.check_follows(manifest(8))
    PROGRESS.check_follows(started_by(AFTER, Position("other.000003", 4, "u:1-8")))


@pytest.mark.parametrize(
    ("following", "says"),
    [
        (manifest(9), "a gap"),
        (started_by(IDENTITY, Position(LOG, 7999, "u:1-8")), "does not start where"),
        (started_by(AFTER, Position(LOG, 8000, "u:1-7")), "different servers"),
        (started_by(AFTER, Position(LOG, 8000)), "different servers"),
        (
            started_by(replace(AFTER, flavor=Flavor.MARIADB), Position(LOG, 8000, "u:1-8")),
            "different servers",
        ),
    ],
)
def test_one_that_does_not_is_refused(following: Manifest, says: str) -> None:
    with pytest.raises(ManifestError, match=says):
        PROGRESS.check_follows(following)


def test_the_servers_that_lead_to_the_newest_manifest() -> None:
    def through(*servers: SourceIdentity) -> tuple[SourceIdentity, ...]:
        manifests = [replace(manifest(8 + n), identity=each) for n, each in enumerate(servers)]
        return PROGRESS.servers_through(manifests)

    assert through(IDENTITY, IDENTITY) == (IDENTITY, BEFORE)
    assert through(IDENTITY, AFTER) == (AFTER, IDENTITY, BEFORE)
    assert through(BEFORE) == (BEFORE, IDENTITY)
    assert Progress().servers_through([manifest(1)]) == (IDENTITY,)
