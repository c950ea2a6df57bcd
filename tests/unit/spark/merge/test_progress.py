"""Progress: it saves reading, and never hides a table that lags behind."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import End, Manifest
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.merge.lake_table import StagedLog
from airflow_provider_binlog.spark.merge.progress import (
    Progress,
    Seen,
    TableProgress,
    load_progress,
    progress_folder,
    published_at,
    read_record,
    read_records,
    read_start,
    record_ids,
    save_progress,
)
from airflow_provider_binlog.spark.plan.table_log import Globs, TableLog
from airflow_provider_binlog.spark.target.state import NOTHING, ForeignWrite, Hold, Mark
from airflow_provider_binlog.staging.paths import manifest_path
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.history import IDENTITY
from tests.unit.spark.memory_files import Files
from tests.unit.spark.plans import NAME, manifest
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import TableName


BEFORE = replace(IDENTITY, server="before")
AFTER = replace(IDENTITY, server="after")
ID = "20261122T091800.250000Z-1f0b6c2ad0e4"
STALE = Hold("stale", "converted", "log.000001:4")
PROGRESS = Progress(
    end=End(7, IDENTITY, Position(LOG, 8000, "u:1-8")),
    servers=(IDENTITY, BEFORE),
    globs=(Globs(1, ("*.*",), ("*.tmp",)), Globs(5, ("shop.*",), ())),
    tables={
        ("shop", "ü"): TableProgress(Mark(5), version=12),
        ("shop", "waits"): TableProgress(Mark(2), 5),
        ("shop", "failed"): TableProgress(Mark(3, 2), 4, pending=True),
        ("shop", "stale"): TableProgress(Mark(2, 1), 3, pending=True, hold=STALE),
    },
)


def save(files: Files, progress: Progress, **more: Any) -> Progress:
    return save_progress(files, "x", progress, **{"loaded": None, "merged": (), **more})


def test_what_was_published_last_is_loaded() -> None:
    files = Files()
    first = save(files, replace(PROGRESS, tables={}))
    last = save(files, PROGRESS, loaded=first)

    assert load_progress(files, "x") == last == replace(PROGRESS, id=last.id)
    assert [*read_records(files, "x")] == [last, first]
    assert read_record(files, "x", first.id) == first
    assert load_progress(files, "y") is None


def test_a_record_follows_all_others_whatever_the_clock_says() -> None:
    files, now = Files(), datetime(2026, 11, 22, tzinfo=UTC)
    ids = [save(files, PROGRESS, now=now - timedelta(hours=n)).id for n in range(3)]

    assert record_ids(files, "x") == ids
    assert published_at(ids[2]) == now + timedelta(microseconds=2)


def test_a_record_that_was_cut_leaves_the_one_before_it() -> None:
    files = Files()
    before = save(files, PROGRESS)
    last = save(files, PROGRESS, loaded=before)
    path = f"x/{last.id}.json"
    whole = files.data[path]

    for size in range(len(whole)):
        files.write(path, whole[:size])
        assert load_progress(files, "x") == before


@pytest.mark.parametrize("data", [b"[]", b"{}", b'{"format": "x", "version": 1}', b"\xff"])
def test_another_file_is_as_good_as_none(data: bytes) -> None:
    files = Files()
    files.write(f"x/{ID}.json", data)

    assert load_progress(files, "x") is None
    with pytest.raises(ManifestError, match=ID):
        read_record(files, "x", ID)


def test_a_record_under_the_name_of_another_is_none() -> None:
    files = Files()
    files.write(f"x/{ID}.json", files.data[f"x/{save(files, PROGRESS).id}.json"])

    with pytest.raises(ManifestError, match="another's name"):
        read_record(files, "x", ID)


@pytest.mark.parametrize(
    ("name", "applied", "first"),
    [
        ("ü", Mark(5), 8),
        ("ü", Mark(6), 8),
        ("ü", Mark(9), 10),
        ("ü", NOTHING, 1),
        ("ü", Mark(4), 5),
        ("ü", Mark(4, 7), 5),
        ("waits", Mark(2), 5),
        ("failed", Mark(3, 2), 4),
        ("failed", Mark(6), 7),
        ("new", NOTHING, 8),
        ("new", Mark(9), 10),
    ],
)
def test_the_first_manifest_that_is_needed(name: str, applied: Mark, first: int) -> None:
    assert PROGRESS.first_needed(("shop", name), applied) == first


def test_of_a_table_that_is_not_known_what_was_never_read_is_needed() -> None:
    since_5 = replace(PROGRESS, since=5)

    assert since_5.first_needed(("shop", "new"), Mark(2)) == 3
    assert since_5.first_needed(("shop", "new"), Mark(4)) == 8
    assert since_5.first_needed(("shop", "new"), NOTHING) == 8


def test_tables_that_lag_behind_are_read_again_whatever_is_new() -> None:
    def every(_: TableName) -> bool:
        return True

    def stale(name: TableName) -> bool:
        return name == ("shop", "stale")

    assert PROGRESS.pending(every) == [("shop", "failed"), ("shop", "stale")]
    assert not PROGRESS.is_merged(7, every)
    assert PROGRESS.is_merged(7, stale)
    assert not PROGRESS.is_merged(8, stale)


def test_a_suspect_table_is_read_again_and_is_no_work_of_its_own() -> None:
    write = ForeignWrite(7, "DELETE")
    suspect = TableProgress(Mark(7), version=8, foreign_write=write)
    progress = replace(PROGRESS, tables={("shop", "t"): suspect})

    assert progress.pending(lambda _: True) == [("shop", "t")]
    assert progress.is_merged(7, lambda _: True)
    assert progress.versions == {}


def test_a_gap_of_the_capture_is_found() -> None:
    log = StagedLog(Files(), TableLog([]), PROGRESS, set())
    assert log.find_gap(("shop", "t"), 1) is None
    assert log.find_gap(("shop", "tmp"), 5) is None
    assert log.find_gap(("a", "tmp"), 7) == 7
    assert log.find_gap(("a", "tmp"), 8) is None
    assert log.find_gap(("a", "t"), 2) == 5
    assert log.find_gap(("a.tmp", "tmp"), 2) == 5
    assert log.find_gap(("shop", "tmp"), 2) == 2


def test_globs_are_kept_as_they_change() -> None:
    other = replace(manifest(9), include=("shop.*",), captured_since=9)
    same = replace(manifest(8), captured_since=3)

    read = Progress(since=8).read([same, other, replace(other, sequence=10)])

    assert read.globs == (Globs(3, ("*.*",), ()), Globs(9, ("shop.*",), ()))
    assert read.read([]) == read


def test_of_merges_side_by_side_the_safe_claims_are_kept() -> None:
    loaded = Progress(tables={NAME: TableProgress(Mark(3))})
    other = ("shop", "other")
    ahead = replace(PROGRESS, tables={NAME: TableProgress(Mark(7)), other: TableProgress(Mark(7))})
    waiting = TableProgress(Mark(3), 4, pending=True)
    end = End(5, IDENTITY, Position(LOG, 6000))
    lagging = Progress(end=end, tables={NAME: waiting, other: waiting})
    files = Files()
    save(files, ahead)

    save(files, lagging, loaded=loaded, merged=[NAME])
    found = load_progress(files, "x")

    assert found is not None
    assert found.through == 7
    assert found.tables[NAME] == TableProgress(Mark(7), 4, pending=True)
    assert found.first_needed(NAME, Mark(3)) == 4
    assert found.tables[other] == TableProgress(Mark(7))


def test_each_lake_has_its_own() -> None:
    rules, others = (TableRules({glob: TableOptions(target="{table}")}) for glob in ("*", "a.*"))
    keys = TableRules({"*": TableOptions(key=("id",))})
    lakes = [("delta", "a", TableRules()), ("delta", "b", TableRules()), ("iceberg", "a", rules)]

    assert len({progress_folder(*lake) for lake in [*lakes, ("iceberg", "a", others)]}) == 4
    assert progress_folder("delta", "a", keys) == progress_folder(*lakes[0])


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
        (started_by(IDENTITY, Position(LOG, 8000, "u:1-9")), "other GTIDs"),
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
        return PROGRESS.read(manifests).servers

    assert through(IDENTITY, IDENTITY) == (IDENTITY, BEFORE)
    assert through(IDENTITY, AFTER) == (AFTER, IDENTITY, BEFORE)
    assert through(BEFORE) == (BEFORE, IDENTITY)
    assert Progress().read([manifest(1)]).servers == (IDENTITY,)


class CountedFiles(Files):
    """Files that count how often a folder is listed."""

    def __init__(self) -> None:
        super().__init__()
        self.listed: Counter[str] = Counter()

    def list(self, folder: str) -> list[str]:
        self.listed[folder] += 1
        return super().list(folder)


def test_the_next_merge_of_a_job_finds_what_is_new_without_listing_all_again() -> None:
    files, now = CountedFiles(), [0.0]
    seen = Seen(lambda: now[0])
    for number in range(1, 6):
        files.write(manifest_path(number), b"")
        if number > 2:
            assert seen.list_manifests(files) == [*range(1, number + 1)]
    assert files.listed["manifests"] == 1

    files.delete(manifest_path(1))
    now[0] = 601
    assert seen.list_manifests(files) == [2, 3, 4, 5]


def test_a_job_leaves_a_record_a_minute_and_its_last_one() -> None:
    files, seen, now = CountedFiles(), Seen(), datetime(2026, 11, 22, tzinfo=UTC)
    other = save(files, PROGRESS, now=now)
    published, newest = [], other
    for number in range(250):
        newest = save(files, PROGRESS, loaded=newest, now=now + timedelta(seconds=5 * number + 3))
        seen.publish(files, "x", newest)
        published.append(newest.id)
        assert {other.id, *published[-100:]} <= {*record_ids(files, "x")}
    seen.thin(files, "x", keep=1)

    first_ones = [*{id_[:13]: id_ for id_ in reversed(published)}.values()]
    assert record_ids(files, "x") == sorted({other.id, *first_ones, published[-1]})
    assert load_progress(files, "x") == newest


def test_records_are_listed_once_to_publish() -> None:
    files = CountedFiles()
    first = save(files, PROGRESS)
    files.listed.clear()

    save(files, PROGRESS, loaded=first)

    assert files.listed["x"] == 1


def test_a_merge_of_a_job_starts_from_what_another_one_published() -> None:
    files, seen = Files(), Seen()
    options = MergeOptions("", "shop", "delta", "lake")
    folder = progress_folder("delta", "lake", TableRules())
    chosen = replace(PROGRESS, tables={NAME: TableProgress(Mark(7), chosen=True, version=3)})
    own = save_progress(files, folder, chosen, loaded=None, merged=[NAME])
    seen.publish(files, folder, own)
    assert read_start(files, options, seen).loaded == own

    forgotten = replace(own, tables={NAME: TableProgress(Mark(7), version=3)})
    other = save_progress(files, folder, forgotten, loaded=own, merged=())
    assert read_start(files, options, seen).loaded == other
    last = save_progress(files, folder, other, loaded=other, merged=[NAME])
    assert last.tables == forgotten.tables
