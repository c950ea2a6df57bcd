"""Reloads: the rows of a snapshot with the staged changes over them, as one commit."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.target.state import PROPERTY, SNAPSHOT, TABLE_ID, UNSEEN, Mark
from tests.unit.spark.history import RowImage, Source, Table
from tests.unit.spark.made_snapshots import SnapshotMaker, take_snapshot
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format, sorted_rows

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Commit


def break_it(table: Table) -> Source:
    """Make the lake table stale with the next merge; return the source."""
    table.rewrite("truncated a partition")
    for key in [key for key in table.rows if key < 3]:
        del table.rows[key]
    table.source.commit()
    return table.source


def replace_table(table: Table, *, swapped: bool) -> Table:
    """Return the table that has the name afterwards: one created again, or of unknown rows."""
    if not swapped:
        table.drop()
        table.create_again()
    else:
        source, columns = table.source, {"id": INT, "note": TEXT}
        copy = source.create(table.name[0], "_t_new", columns, ("id",), logged=False)
        copy.load(id=1, note="copied")
        source.rename((table, f"_t_old{source.sequence}"), (copy, "t"))
        table = copy
    table.insert(id=7, note="new")
    return table


def names_of(table: Table) -> list[str]:
    return sorted_rows(table.values)


def test_a_table_that_is_older_than_the_log_is_loaded_while_it_is_written(
    workplace: Workplace,
) -> None:
    table = workplace.old_table()
    source = table.source
    table.update(1, note="before")
    source.commit()
    maker = SnapshotMaker(table)
    table.update(2, id=12)
    maker.read(lambda row: row["id"] < 5)
    table.update(3, note="between")
    table.delete(4)
    table.update(6, id=1001, note="moved")
    table.update(5, id=4)
    table.insert(id=20, note="new")
    maker.read(lambda row: row["id"] >= 5)
    table.update(7, note="after")
    snapshot = maker.commit()

    (report,) = workplace.try_merge().tables
    assert (report.status, report.version) == ("loading", None)
    assert f"snapshot {snapshot.id} is not loaded yet" in report.reason
    assert workplace.lake.find_state(workplace.spark, workplace.target(table)) is None

    source.commit()
    table.insert(id=30, note="later")
    source.commit()
    (report,) = workplace.merge().tables
    assert (report.status, report.snapshot) == ("merged", snapshot.id)
    workplace.check(table)
    state = workplace.state(table)
    assert (state.applied, state.loaded, state.table) == (Mark(3), snapshot.id, table.identity.id)
    assert state.hold is None
    assert workplace.merge().tables == []

    table.alter("RENAME ...", {"id": BIGINT, "text": TEXT}, renamed={"text": "note"})
    table.update(8, text="renamed")
    workplace.follow(table)
    assert workplace.state(table).loaded == snapshot.id


@in_either_format
def test_a_table_that_the_log_has_not_mentioned_is_known_by_its_name(workplace: Workplace) -> None:
    table = workplace.old_table()
    source, other = table.source, table.source.create(workplace.database, "other", {"id": INT})
    other.insert(id=1)
    source.commit()
    take_snapshot(table)
    workplace.follow(table)
    state = workplace.state(table)
    assert (state.table, state.properties[TABLE_ID], state.fields) == (UNSEEN, UNSEEN, {})
    # Two columns exchange their names: by name alone they would be mixed up.
    swapped = {"note": INT, "id": TEXT}
    table.alter("...", swapped, renamed={"note": "id", "id": "note"})
    table.update(1, id="renamed")
    workplace.follow(table, in_order=False)
    assert workplace.state(table).table == table.identity.id
    assert len(workplace.state(table).fields) == 2
    table.delete(2)
    workplace.follow(table, in_order=False)


@in_either_format
def test_a_stale_table_is_live_after_a_reload(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    table.insert(id=100, note="new")
    source.commit()
    take_snapshot(table)
    table.insert(id=101, note="new")
    workplace.follow(table)

    source = break_it(table)
    assert workplace.held().status == "stale"
    table.update(5, note="while stale")
    table.alter("...", {"id": INT, "note": TEXT, "more": BIGINT}, more=7)
    source.commit()
    assert workplace.held().status == "stale"
    before = sorted_rows(workplace.found(table))
    snapshot = take_snapshot(table)
    waits = workplace.held()
    assert (waits.status, "not loaded yet" in waits.snapshot) == ("stale", True)
    assert sorted_rows(workplace.found(table)) == before

    table.update(6, note="after", more=8)
    source.commit()
    assert workplace.merge().held == []
    workplace.check(table)
    state = workplace.state(table)
    assert (state.hold, state.loaded) == (None, snapshot.id)
    table.update(7, more=9)
    workplace.follow(table)


@pytest.mark.fault("lake-altered", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_live_table_is_replaced_and_ddl_after_the_snapshot_is_followed(
    workplace: Workplace,
) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    for id_ in range(5):
        table.insert(id=id_, note="one")
    source.commit()
    workplace.merge()
    workplace.spark.sql(f"DELETE FROM {workplace.target(table)} WHERE id = 3")
    workplace.spark.sql(f"UPDATE {workplace.target(table)} SET note = 'wrong' WHERE id = 4")

    table.update(0, note="two")
    take_snapshot(table)
    table.update(1, note="three")
    table.alter("...", {"id": INT, "note": TEXT, "more": BIGINT}, more=7)
    table.insert(id=9, note="nine", more=1)
    table.alter(
        "...",
        {"text": TEXT, "id": INT, "more": BIGINT},
        renamed={"text": "note"},
    )
    table.insert(id=10, text="ten", more=2)
    source.commit()
    (report,) = workplace.merge().tables
    assert report.applied_after == Mark(2)
    workplace.check(table, in_order=False)


@in_either_format
def test_ddl_while_a_table_is_read_is_refused_by_name(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    table.insert(id=50, note="x")
    source.commit()
    maker = SnapshotMaker(table).read(lambda row: row["id"] < 5)
    table.alter("ADD ...", {"id": INT, "note": TEXT, "more": BIGINT})
    maker.commit()
    source.commit()
    held = workplace.held()
    assert held.status == "loading"
    assert "changed by a DDL statement" in held.reason
    assert "take the snapshot again" in held.reason

    take_snapshot(table)
    table.update(3, more=5)
    workplace.follow(table)

    maker = SnapshotMaker(table).read()
    table.alter("DROP ...", {"id": INT, "note": TEXT})
    maker.commit()
    source.commit()
    assert "changed by a DDL statement" in str(workplace.failure().error)
    take_snapshot(table)
    workplace.follow(table)


@pytest.mark.parametrize("swapped", [False, True], ids=["created again", "swapped"])
def test_a_table_that_is_replaced_after_its_first_snapshot_is_merged_or_named(
    quick_workplace: Workplace, *, swapped: bool
) -> None:
    """At first, and while it is stale: the snapshot is that of another table."""
    workplace = quick_workplace
    table = workplace.old_table()
    source, name = table.source, ".".join(table.name)
    options: dict[str, Any] = {"initial_load": "snapshot", "tables": [name]}
    take_snapshot(table)
    table = replace_table(table, swapped=swapped)
    source.commit()
    report = workplace.try_merge(**options)
    assert not report.failed, report.to_json()
    assert [each.table for each in report.held] == ([name] if swapped else [])
    if swapped:
        assert [each.table for each in workplace.try_merge(**options).held] == [name]
        take_snapshot(table)
        source.commit()
        workplace.merge(**options)
    workplace.check(table)

    break_it(table)
    source.commit()
    assert workplace.held(**options).status == "stale"
    take_snapshot(table)
    table = replace_table(table, swapped=swapped)
    source.commit()
    report = workplace.try_merge(**options)
    assert not report.failed, report.to_json()
    assert [each.status for each in report.held] == (["stale"] if swapped else [])
    if not swapped:
        workplace.check(table)


@in_either_format
@pytest.mark.fault("reload-killed", lakes="delta iceberg", stores="file")
def test_a_reload_that_is_killed_begins_again_or_is_done(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    table.insert(id=50, note="x")
    source.commit()
    take_snapshot(table)
    table.update(1, note="after")
    source.commit()
    workplace.merge_killed("create_as")
    assert workplace.lake.find_state(workplace.spark, workplace.target(table)) is None
    workplace.create_empty()
    assert workplace.hold(table).state == "loading"
    assert workplace.found(table) == []
    workplace.merge_killed("overwrite", done=True)
    state = workplace.state(table)
    assert (state.hold, state.table) == (None, table.identity.id)
    assert SNAPSHOT not in state.properties
    workplace.check(table)

    assert [each.status for each in workplace.merge().tables] == ["current"]
    assert workplace.state(table).snapshot == state.snapshot
    table.alter("...", {"id": INT, "text": TEXT}, renamed={"text": "note"})
    table.update(2, text="two")
    workplace.follow(table)

    source = break_it(table)
    assert workplace.held().status == "stale"
    snapshot = take_snapshot(table)
    source.commit()
    workplace.merge_killed("overwrite")
    assert workplace.hold(table).state == "stale"
    workplace.merge_killed("overwrite", done=True)
    assert "stale" in workplace.state(table).properties[PROPERTY]
    assert workplace.state(table).hold is None
    assert workplace.state(table).loaded == snapshot.id
    workplace.merge()
    workplace.check(table)


@pytest.mark.fault("conflict", lakes="delta iceberg", stores="file")
def test_of_two_reloads_at_once_one_is_committed(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = workplace.old_table()
    source = table.source
    table.insert(id=50, note="x")
    source.commit()
    take_snapshot(table)
    source.commit()
    workplace.merge()
    take_snapshot(table)
    table.update(1, note="after")
    source.commit()
    lake: Any = type(workplace.lake)
    overwrite, both = lake.overwrite, threading.Barrier(2, timeout=120)

    def together(*arguments: Any) -> Commit | None:
        both.wait()
        done: Commit | None = overwrite(*arguments)
        return done

    with monkeypatch.context() as patch, ThreadPoolExecutor(2) as pool:
        patch.setattr(lake, "overwrite", together)
        runs = [pool.submit(workplace.try_merge) for _ in range(2)]
        reports = [run.result() for run in runs]

    failed = [each for each in reports if each.failed]
    assert len(failed) <= 1
    assert all(each.may_pass for each in failed)
    workplace.merge()
    workplace.check(table)


@pytest.mark.fault("lake-restored", lakes="delta iceberg", stores="file")
@in_either_format
def test_what_was_restored_to_before_a_reload_is_loaded_again(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    table.insert(id=50, note="x")
    source.commit()
    take_snapshot(table)
    source.commit()
    workplace.merge()
    before = workplace.state(table)
    break_it(table)
    assert workplace.held().status == "stale"
    snapshot = take_snapshot(table)
    workplace.follow(table)

    target = workplace.target(table)
    if workplace.format == "delta":
        workplace.spark.sql(f"RESTORE {target} TO VERSION AS OF {before.snapshot}")
    else:
        name = ".".join(table.name)
        workplace.spark.sql(f"CALL lake.system.rollback_to_snapshot('{name}', {before.snapshot})")
    restored = workplace.state(table)
    assert (restored.applied, restored.loaded) == (before.applied, before.loaded)
    table.update(7, note="seven")
    workplace.follow(table)
    assert workplace.state(table).loaded == snapshot.id


@in_either_format
def test_a_table_without_a_key_is_loaded_at_an_exact_position(workplace: Workplace) -> None:
    table = workplace.old_table(key=())
    source = table.source
    for _ in range(3):
        table.insert(id=1, note="twice")
    maker = SnapshotMaker(table).read()
    table.insert(id=1, note="twice")
    table.update(2, note="two")
    maker.commit()
    source.commit()
    held = workplace.held()
    assert "not read at one position" in held.reason

    table.insert(id=8, note="read, and logged in the same range")
    maker = SnapshotMaker(table, is_exact=True).read()
    table.insert(id=1, note="twice")
    table.delete(3)
    maker.commit()
    source.commit()
    workplace.merge()

    def rows() -> list[str]:
        names = set(table.types)
        found: list[dict[str, Any]] = []
        changes = workplace.found(table)
        for row in sorted(changes, key=lambda row: (row["_sequence"], row["_row"])):
            values = {name: row[name] for name in names}
            if row["_change_type"] in ("delete", "update_preimage"):
                found.remove(values)
            else:
                found.append(values)
        return sorted_rows(found)

    assert rows() == names_of(table)
    table.insert(id=9, note="nine")
    source.commit()
    workplace.merge()
    assert rows() == names_of(table)

    table.alter("...", {"id": INT, "note": BIGINT, "new": TEXT}, again={"note"})
    table.insert(id=10, note=10, new="ten")
    source.commit()
    held = workplace.held()
    assert (held.status, "note was string" in held.reason) == ("stale", True)
    maker = SnapshotMaker(table, is_exact=True).read()
    maker.commit()
    table.insert(id=11, note=11)
    source.commit()
    assert workplace.merge().held == []
    assert rows() == names_of(table)


@in_either_format
def test_images_that_lack_columns_are_replayed_unless_keys_change(workplace: Workplace) -> None:
    table = workplace.old_table()
    source = table.source
    source.row_image = RowImage.MINIMAL
    table.update(1, note="one")
    source.commit()
    maker = SnapshotMaker(table)
    table.update(2, note="two")
    table.update(8, note="deleted")
    maker.read(lambda row: row["id"] < 5)
    table.delete(8)
    table.update(3, note="three")
    maker.read(lambda row: row["id"] >= 5)
    maker.commit()
    workplace.follow(table)

    maker = SnapshotMaker(table)
    table.update(5, id=50)
    maker.read().commit()
    source.commit()
    held = workplace.held()
    assert (held.status, "rows got another key" in held.reason) == ("stale", True)

    # What was logged before an exact position is not replayed.
    table.update(6, id=60)
    maker = SnapshotMaker(table, is_exact=True).read()
    table.update(60, note="sixty")
    maker.commit()
    workplace.follow(table)
