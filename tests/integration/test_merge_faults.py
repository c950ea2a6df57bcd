"""Failures: nothing is merged in part, nothing twice, and the reason is said."""

from __future__ import annotations

import json
import re
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from shutil import rmtree
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.spark.collapse.source_rows import SparkRows
from airflow_provider_binlog.spark.target.spark_target import TableCommit
from airflow_provider_binlog.spark.target.state import Mark
from tests.unit.spark.history import IDENTITY, Source, Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Commit


def a_table(workplace: Workplace) -> tuple[Source, Table]:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="one")
    source.commit()
    return source, table


@pytest.mark.fault("merge-killed", lakes="delta iceberg", stores="file")
def test_a_merge_that_died_after_its_commit_is_not_repeated(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    log = source.create(workplace.database, "log", {"text": TEXT})
    log.insert(text="once")
    table.update(1, id=2)
    source.commit()
    workplace.merge_killed("create_as", "merge", done=True)
    versions = [workplace.state(each).snapshot for each in (table, log)]

    report = workplace.merge()

    assert [each.status for each in report.tables] == ["current", "current"]
    assert [workplace.state(each).snapshot for each in (table, log)] == versions
    workplace.check(table)
    assert len(workplace.found(log)) == 1


@pytest.mark.parametrize(
    ("workplace", "mode"),
    [("iceberg", ""), ("delta", "name"), pytest.param("delta", "none", marks=pytest.mark.slow)],
    indirect=["workplace"],
)
def test_a_new_table_is_one_commit_whatever_a_killed_merge_left(
    workplace: Workplace, mode: str
) -> None:
    _, table = a_table(workplace)
    options: dict[str, Any] = {}
    if workplace.format == "delta":
        # Delta makes the folder of its log before it writes rows.
        folder = urlsplit(workplace.target(table).split("`")[1]).path
        (Path(folder) / "_delta_log").mkdir(parents=True)
        (Path(folder) / "part-00000.snappy.parquet").write_bytes(b"cut")
        options["properties"] = {"delta.columnMapping.mode": mode}

    workplace.merge(**options)

    workplace.check(table)
    fields = {id_: name for name, id_ in table.identity.ids.items()}
    assert workplace.state(table).fields == fields
    target = workplace.target(table)
    history = f"DESCRIBE HISTORY {target}" if mode else f"TABLE {target}.metadata_log_entries"
    assert workplace.spark.sql(history).count() == 1
    table.update(1, note="two")
    workplace.follow(table, **options)


@pytest.mark.fault("conflict", lakes="delta iceberg", stores="file")
def test_of_two_merges_at_once_one_counts(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    log = source.create(workplace.database, "log", {"text": TEXT})
    lake: Any = type(workplace.lake)

    def race(name: str) -> None:
        call, both = getattr(lake, name), threading.Barrier(2)

        def together(*arguments: Any) -> Commit | None:
            if name == "create_as" or arguments[3].applied < Mark(2):
                both.wait(timeout=60)
            done: Commit | None = call(*arguments)
            return done

        for each in (table, log):
            with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
                patch.setattr(lake, name, together)
                only = {"tables": [".".join(each.name)]}
                races = [pool.submit(workplace.try_merge, **only) for _ in range(2)]
                reports = [race.result().tables[0] for race in races]
            assert sorted(report.status for report in reports) in (
                ["failed", "merged"],
                ["current", "merged"],
            )
            assert all(report.retryable for report in reports if report.error)

    table.insert(id=1, note="one")
    log.insert(text="before")
    source.commit()
    race("create_as")
    workplace.merge()
    log.insert(text="once")
    for id_ in range(2, 9):
        table.insert(id=id_, note="new")
    table.update(1, note="changed")
    source.commit()
    race("merge")
    workplace.merge()
    workplace.check(table)
    assert len(workplace.found(log)) == 2


@pytest.mark.fault("conflict", lakes="delta iceberg", stores="file")
@pytest.mark.parametrize(
    ("workplace", "step"),
    [
        ("iceberg", "make"),
        ("delta", "_evolve"),
        pytest.param("iceberg", "_evolve", marks=pytest.mark.slow),
        pytest.param("delta", "make", marks=pytest.mark.slow),
    ],
    indirect=["workplace"],
)
def test_two_merges_at_once_do_not_exchange_columns_twice(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Another merge exchanges them before this one does, and is killed before its commit."""
    source = workplace.new_source()
    types = {"id": INT, "a": INT, "b": INT}
    table = source.create(workplace.database, "t", types, ("id",))
    for id_ in range(1, 4):
        table.insert(id=id_, a=id_, b=10 * id_)
    source.commit()
    workplace.merge()
    table.alter("RENAME COLUMN a TO b, ...", types, renamed={"a": "b", "b": "a"})
    table.update(1, a=7)
    source.commit()
    lake = type(workplace.lake)
    owner: Any = SparkRows if step == "make" else TableCommit
    run = getattr(owner, step)

    def die(*_: Any) -> Commit:
        raise RuntimeError("killed")

    def delayed(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(owner, step, run)
        with monkeypatch.context() as patch:
            patch.setattr(lake, "merge", die)
            assert workplace.try_merge().failed
        return run(*arguments, **named)

    monkeypatch.setattr(owner, step, delayed)

    failed = workplace.failure()

    assert "another merge committed to the target meanwhile" in str(failed.error)
    assert failed.retryable
    workplace.merge()
    workplace.check(table, in_order=False)


@pytest.mark.fault("merge-zombie", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_delayed_merge_of_less_does_no_lasting_harm(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A zombie that planned manifest 2 commits when manifest 3 is merged already."""
    source, table = a_table(workplace)
    workplace.merge()
    table.update(1, note="two")
    source.commit()
    lake = type(workplace.lake)
    merge = lake.merge

    def delayed(*arguments: Any) -> Commit | None:
        monkeypatch.setattr(lake, "merge", merge)
        table.update(1, note="three")
        table.insert(id=3, note="three")
        source.commit()
        workplace.merge(tables=["*", "*.t"])
        return merge(*arguments)

    monkeypatch.setattr(lake, "merge", delayed)
    (report,) = workplace.try_merge(through=2).tables

    assert report.status == "current" or report.retryable
    table.insert(id=4, note="four")
    workplace.follow(table)


def test_only_what_is_new_is_read(quick_workplace: Workplace) -> None:
    source, table = a_table(quick_workplace)
    idle = source.create(quick_workplace.database, "idle", {"id": INT}, ("id",))
    idle.insert(id=1)
    source.commit()
    quick_workplace.merge()
    quick_workplace.store.write(source.log.key(1), b"expired")
    table.insert(id=2, note="two")
    source.commit()
    quick_workplace.merge()
    quick_workplace.store.write(source.log.key(2), b"expired")
    idle.insert(id=2)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table, idle)


@pytest.mark.fault("lake-dropped", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_lake_table_that_was_dropped_is_created_again(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    workplace.merge()
    if workplace.format == "iceberg":
        workplace.spark.sql(f"DROP TABLE {workplace.target(table)}")
    else:
        rmtree(workplace.target(table).removeprefix("delta.`file://").removesuffix("`"))
    table.insert(id=2, note="two")
    source.commit()

    workplace.merge()

    workplace.check(table)


@pytest.mark.fault("manifest-damaged", lakes="iceberg", stores="file")
def test_a_missing_manifest_stops_everything(quick_workplace: Workplace) -> None:
    source, table = a_table(quick_workplace)
    table.insert(id=2, note="two")
    source.make_manifest()
    table.insert(id=3, note="three")
    manifest = source.make_manifest()
    quick_workplace.store.write(source.log.key(3), manifest.encode())

    with pytest.raises(ManifestError, match=r"a manifest is missing.*0000000000000002\.json"):
        quick_workplace.try_merge()

    assert (
        quick_workplace.lake.find_state(quick_workplace.spark, quick_workplace.target(table))
        is None
    )


@pytest.mark.fault("manifest-damaged", lakes="iceberg", stores="file")
@pytest.mark.parametrize("wrong", ["start", "server"])
def test_manifests_that_do_not_follow_each_other_stop_everything(
    quick_workplace: Workplace, wrong: str
) -> None:
    source, table = a_table(quick_workplace)
    table.insert(id=2, note="two")
    manifest = source.make_manifest()
    if wrong == "start":
        manifest = replace(manifest, start=Position(manifest.start.file, manifest.start.offset + 1))
    else:
        manifest = replace(manifest, identity=replace(IDENTITY, server="another"))
    quick_workplace.store.write(source.log.key(2), manifest.encode())

    with pytest.raises(ManifestError, match="manifest"):
        quick_workplace.try_merge()

    assert (
        quick_workplace.lake.find_state(quick_workplace.spark, quick_workplace.target(table))
        is None
    )
    quick_workplace.merge(through=1)
    with pytest.raises(ManifestError, match=r"does not (start|go on)"):
        quick_workplace.try_merge()


@pytest.mark.fault("part-damaged", lakes="iceberg", stores="file")
def test_a_damaged_part_stops_its_table_alone(quick_workplace: Workplace) -> None:
    source, table = a_table(quick_workplace)
    good = source.create(quick_workplace.database, "good", {"id": INT}, ("id",))
    quick_workplace.merge()
    before = quick_workplace.found(table)
    table.insert(id=2, note="two")
    good.insert(id=1)
    manifest = source.commit()
    (changes,) = [each for each in manifest.tables if each.name == table.name]
    key = f"{quick_workplace.source}/{changes.parts[0].path}"
    data = quick_workplace.store.read(key)

    def error(**options: Any) -> str:
        return str(quick_workplace.failure(**options).error)

    quick_workplace.store.write(key, data[:-1])
    assert re.search(r"size its manifest says.*0000000000000002-000000", error())
    quick_workplace.check(good)
    quick_workplace.store.write(key, data[:20] + bytes([data[20] ^ 1]) + data[21:])
    assert re.search(
        r"SHA-256 its manifest says.*0000000000000002-000000", error(verify_parts=True)
    )
    quick_workplace.store._fs.rm(quick_workplace.store._path(key))
    assert re.search(r"part is missing.*0000000000000002-000000", said := error())

    assert quick_workplace.found(table) == before
    quick_workplace.store.write(key, data)
    quick_workplace.merge(verify_parts=True)
    quick_workplace.check(table)

    # Nobody has the part.
    assert "put it back as it was staged, or load the table from a new snapshot" in said
    table.insert(id=3, note="lost")
    (changes,) = source.commit().tables
    quick_workplace.store._fs.rm(
        quick_workplace.store._path(f"{quick_workplace.source}/{changes.parts[0].path}")
    )
    assert "part is missing" in error()
    take_snapshot(table)
    table.insert(id=4, note="new")
    source.commit()
    quick_workplace.merge()
    quick_workplace.check(table)


@pytest.mark.fault("part-damaged", lakes="iceberg", stores="file")
def test_a_part_with_other_rows_than_promised_is_refused(quick_workplace: Workplace) -> None:
    source, table = a_table(quick_workplace)
    manifest = source.log.load(1)
    (changes,) = manifest.tables
    part = replace(changes.parts[0], rows=2)
    manifest = replace(manifest, tables=(replace(changes, parts=(part,)),))
    quick_workplace.store.write(source.log.key(1), manifest.encode())

    failed = quick_workplace.failure()

    assert "do not hold the rows their manifests say" in str(failed.error)
    assert (
        quick_workplace.lake.find_state(quick_workplace.spark, quick_workplace.target(table))
        is None
    )


@in_either_format
def test_another_source_may_not_write_the_table(workplace: Workplace) -> None:
    _, table = a_table(workplace)
    workplace.merge()
    workplace.source += "-another"
    another = workplace.new_source()
    same = another.create(*table.name, {"id": INT, "note": TEXT}, ("id",))
    same.insert(id=1, note="foreign")
    another.commit()

    failed = workplace.failure()

    assert "does not follow this table of this source" in str(failed.error)
    assert "binlog.source" in str(failed.error)


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_table_that_is_not_ours_is_left_alone(workplace: Workplace) -> None:
    _, table = a_table(workplace)
    workplace.make_empty(workplace.target(table), {"id": "int", "note": "string"}, {"a": "b"})

    failed = workplace.failure()

    assert "binlog.source" in str(failed.error)


def test_one_failure_keeps_no_other_table(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    good = source.create(quick_workplace.database, "good", {"id": INT}, ("id",))
    good.insert(id=1)
    bad = []
    for name in ("one", "other"):
        table = source.create(
            quick_workplace.database, name, {"id": INT, "_binlog_pos": INT}, ("id",)
        )
        table.insert(id=1)
        bad.append(f"{quick_workplace.database}.{name}")
    source.commit()

    report = quick_workplace.try_merge()

    assert {each.table for each in report.tables if each.error} == set(bad)
    quick_workplace.check(good)
    assert json.loads(report.to_json())["status"] == "failed"
