"""What goes wrong: nothing is merged in part, nothing twice, and the reason is said."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ManifestError, StagingError
from airflow_provider_binlog.position import Position
from tests.unit.spark.history import IDENTITY, INT, TEXT, Source, Table
from tests.unit.spark.workplace import Workplace

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.lake.table_format import Commit

pytestmark = pytest.mark.filterwarnings(
    "ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"
)


def a_table(place: Workplace) -> tuple[Source, Table]:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="one")
    source.commit()
    return source, table


def test_a_merge_that_died_behind_its_commit_is_not_repeated(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source, table = a_table(place)
    log = source.create(place.database, "log", {"text": TEXT})
    log.insert(text="once")
    table.update(1, id=2)
    source.commit()
    lake = type(place.lake)
    merge = lake.merge

    def die(*arguments: Any) -> Commit | None:
        merge(*arguments)
        raise RuntimeError("killed")

    with monkeypatch.context() as patch:
        patch.setattr(lake, "merge", die)
        assert place.try_merge().failed
    versions = [place.state(each).snapshot for each in (table, log)]

    report = place.merge()

    assert [each.status for each in report.tables] == ["current", "current"]
    assert [place.state(each).snapshot for each in (table, log)] == versions
    place.check(table)
    assert len(place.found(log)) == 1


def test_of_two_merges_at_once_one_counts(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = place.new_source()
    table = source.create(place.database, "t", {"id": INT, "note": TEXT}, ("id",))
    log = source.create(place.database, "log", {"text": TEXT})
    table.insert(id=1, note="one")
    log.insert(text="before")
    source.commit()
    place.merge()
    log.insert(text="once")
    for id_ in range(2, 9):
        table.insert(id=id_, note="new")
    table.update(1, note="changed")
    source.commit()
    lake = type(place.lake)
    merge, both = lake.merge, threading.Barrier(2)

    def together(*arguments: Any) -> Commit | None:
        if arguments[3].applied_sequence < 2:
            both.wait(timeout=60)
        return merge(*arguments)

    for each in (table, log):
        with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
            patch.setattr(lake, "merge", together)
            only = {"tables": [".".join(each.name)]}
            races = [pool.submit(place.try_merge, **only) for _ in range(2)]
            reports = [race.result().tables[0] for race in races]
        assert sorted(report.status for report in reports) in (
            ["failed", "merged"],
            ["current", "merged"],
        )
        assert all(report.retryable for report in reports if report.error)

    place.merge()
    place.check(table)
    assert len(place.found(log)) == 2


def test_a_late_merge_of_less_does_no_lasting_harm(
    place: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zombie that planned manifest 2 commits when manifest 3 is merged already."""
    source, table = a_table(place)
    place.merge()
    table.update(1, note="two")
    source.commit()
    lake = type(place.lake)
    merge = lake.merge

    def late(*arguments: Any) -> Commit | None:
        monkeypatch.setattr(lake, "merge", merge)
        table.update(1, note="three")
        table.insert(id=3, note="three")
        source.commit()
        place.merge(tables=["*", "*.t"])
        return merge(*arguments)

    monkeypatch.setattr(lake, "merge", late)
    (report,) = place.try_merge(through=2).tables

    assert report.status == "current" or report.retryable
    table.insert(id=4, note="four")
    source.commit()
    place.merge()
    place.check(table)


def test_only_what_is_new_is_read(quick_place: Workplace) -> None:
    source, table = a_table(quick_place)
    idle = source.create(quick_place.database, "idle", {"id": INT}, ("id",))
    idle.insert(id=1)
    source.commit()
    quick_place.merge()
    quick_place.store.write(source.log.key(1), b"expired")
    table.insert(id=2, note="two")
    source.commit()
    quick_place.merge()
    quick_place.store.write(source.log.key(2), b"expired")
    idle.insert(id=2)
    source.commit()

    quick_place.merge()

    quick_place.check(table, idle)


def test_a_lake_table_that_was_dropped_is_built_anew(place: Workplace) -> None:
    source, table = a_table(place)
    place.merge()
    if place.format == "iceberg":
        place.spark.sql(f"DROP TABLE {place.target(table)}")
    else:
        rmtree(place.target(table).removeprefix("delta.`file://").removesuffix("`"))
    table.insert(id=2, note="two")
    source.commit()

    place.merge()

    place.check(table)


def test_a_missing_manifest_stops_everything(quick_place: Workplace) -> None:
    source, table = a_table(quick_place)
    table.insert(id=2, note="two")
    source.make_manifest()
    table.insert(id=3, note="three")
    manifest = source.make_manifest()
    quick_place.store.write(source.log.key(3), manifest.encode())

    with pytest.raises(ManifestError, match=r"a manifest is missing.*0000000000000002\.json"):
        quick_place.try_merge()

    assert quick_place.lake.find_state(quick_place.spark, quick_place.target(table)) is None


@pytest.mark.parametrize("wrong", ["start", "server"])
def test_manifests_that_do_not_follow_each_other_stop_everything(
    quick_place: Workplace, wrong: str
) -> None:
    source, table = a_table(quick_place)
    table.insert(id=2, note="two")
    manifest = source.make_manifest()
    if wrong == "start":
        manifest = replace(manifest, start=Position(manifest.start.file, manifest.start.offset + 1))
    else:
        manifest = replace(manifest, identity=replace(IDENTITY, server="another"))
    quick_place.store.write(source.log.key(2), manifest.encode())

    with pytest.raises(ManifestError, match="manifest"):
        quick_place.try_merge()

    assert quick_place.lake.find_state(quick_place.spark, quick_place.target(table)) is None
    quick_place.merge(through=1)
    with pytest.raises(ManifestError, match=r"does not (start|go on)"):
        quick_place.try_merge()


def test_a_damaged_part_stops_everything(quick_place: Workplace) -> None:
    source, table = a_table(quick_place)
    quick_place.merge()
    before = quick_place.found(table)
    table.insert(id=2, note="two")
    manifest = source.commit()
    key = f"{quick_place.source}/{manifest.tables[0].parts[0].path}"
    data = quick_place.store.read(key)

    quick_place.store.write(key, data[:-1])
    with pytest.raises(StagingError, match=r"size its manifest says.*0000000000000002-000000"):
        quick_place.try_merge()
    quick_place.store.write(key, data[:20] + bytes([data[20] ^ 1]) + data[21:])
    with pytest.raises(StagingError, match=r"SHA-256 its manifest says.*0000000000000002-000000"):
        quick_place.try_merge(verify_parts=True)
    quick_place.store._fs.rm(quick_place.store._path(key))
    with pytest.raises(StagingError, match=r"part is missing.*0000000000000002-000000"):
        quick_place.try_merge()

    assert quick_place.found(table) == before
    quick_place.store.write(key, data)
    quick_place.merge(verify_parts=True)
    quick_place.check(table)


def test_a_part_with_other_rows_than_promised_is_refused(quick_place: Workplace) -> None:
    source, table = a_table(quick_place)
    manifest = source.log.load(1)
    (changes,) = manifest.tables
    part = replace(changes.parts[0], rows=2)
    manifest = replace(manifest, tables=(replace(changes, parts=(part,)),))
    quick_place.store.write(source.log.key(1), manifest.encode())

    failed = quick_place.failure()

    assert "do not hold the rows their manifests say" in str(failed.error)
    assert quick_place.lake.find_state(quick_place.spark, quick_place.target(table)) is None


def test_another_source_may_not_write_the_table(place: Workplace) -> None:
    _, table = a_table(place)
    place.merge()
    place.source += "-another"
    another = place.new_source()
    same = another.create(*table.name, {"id": INT, "note": TEXT}, ("id",))
    same.insert(id=1, note="foreign")
    another.commit()

    failed = place.failure()

    assert "does not follow this table of this source" in str(failed.error)
    assert "binlog.source" in str(failed.error)


def test_a_table_that_is_not_ours_is_left_alone(place: Workplace) -> None:
    _, table = a_table(place)
    place.lake.create(place.spark, place.target(table), {"id": "int", "note": "string"}, {"a": "b"})

    failed = place.failure()

    assert "binlog.source" in str(failed.error)


def test_one_failure_keeps_no_other_table(quick_place: Workplace) -> None:
    source = quick_place.new_source()
    good = source.create(quick_place.database, "good", {"id": INT}, ("id",))
    good.insert(id=1)
    bad = []
    for name in ("one", "other"):
        table = source.create(quick_place.database, name, {"id": INT, "_binlog_pos": INT}, ("id",))
        table.insert(id=1)
        bad.append(f"{quick_place.database}.{name}")
    source.commit()

    report = quick_place.try_merge()

    assert {each.table for each in report.tables if each.error} == set(bad)
    quick_place.check(good)
    assert json.loads(report.to_json())["status"] == "failed"
