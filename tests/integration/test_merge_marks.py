"""What a lake table contains is read from the table itself: restored, dropped, or overtaken."""

from __future__ import annotations

from shutil import rmtree
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.spark.target.state import NOTHING, Mark, read_hold
from tests.unit.spark.history import Source, Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format, sorted_rows

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Commit


def a_table(workplace: Workplace, *, logged: bool = True) -> tuple[Source, Table]:
    source = workplace.new_source()
    columns = {"id": INT, "note": TEXT}
    table = source.create(workplace.database, "t", columns, ("id",), logged=logged)
    for id_ in range(5):
        table.insert(id=id_, note="one")
    source.commit()
    return source, table


def compact(workplace: Workplace, table: Table) -> int:
    """Rewrite the files of the lake table; return the version that this makes."""
    target = workplace.target(table)
    if workplace.format == "delta":
        workplace.spark.sql(f"OPTIMIZE {target}")
    else:
        options = "options => map('rewrite-all', 'true')"
        workplace.spark.sql(
            f"CALL lake.system.rewrite_data_files(table => '{_name(table)}', {options})"
        )
        workplace.spark.sql(f"CALL lake.system.rewrite_manifests('{_name(table)}')")
    version = workplace.state(table).snapshot
    assert version is not None
    return version


def restore(workplace: Workplace, table: Table, version: int) -> None:
    if workplace.format == "delta":
        workplace.spark.sql(f"RESTORE {workplace.target(table)} TO VERSION AS OF {version}")
    else:
        workplace.spark.sql(f"CALL lake.system.rollback_to_snapshot('{_name(table)}', {version})")


def expire(workplace: Workplace, table: Table) -> None:
    """Delete what is older than the present version."""
    if workplace.format == "iceberg":
        workplace.spark.sql(
            f"CALL lake.system.expire_snapshots(table => '{_name(table)}', "
            "older_than => TIMESTAMP '2100-01-01 00:00:00', retain_last => 1)"
        )
    else:
        session = workplace.spark.newSession()
        session.conf.set("spark.databricks.delta.retentionDurationCheck.enabled", "false")
        session.sql(f"VACUUM {workplace.target(table)} RETAIN 0 HOURS")


def drop(workplace: Workplace, table: Table) -> None:
    if workplace.format == "iceberg":
        workplace.spark.sql(f"DROP TABLE {workplace.target(table)}")
    else:
        rmtree(workplace.target(table).removeprefix("delta.`file://").removesuffix("`"))


def delete_progress(workplace: Workplace) -> None:
    folder = workplace.store._path(f"{workplace.source}/_merged")
    workplace.store._fs.rm(folder, recursive=True)


def _name(table: Table) -> str:
    return ".".join(table.name)


@pytest.mark.fault("lake-restored", lakes="delta iceberg", stores="file")
def test_what_followed_a_restored_version_is_merged_again(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    workplace.merge()
    table.update(1, note="two")
    table.delete(2)
    source.commit()
    workplace.merge()
    compacted = compact(workplace, table)
    assert workplace.state(table).applied == Mark(2)
    table.insert(id=20, note="three")
    table.update(0, note="three")
    source.commit()
    workplace.merge()

    restore(workplace, table, compacted)
    compact(workplace, table)
    expire(workplace, table)

    assert workplace.state(table).applied == Mark(2)
    assert workplace.merge().tables == []
    table.update(3, note="four")
    source.commit()
    (report,) = workplace.merge().tables
    assert (report.applied_before, report.applied_after) == (Mark(2), Mark(4))
    workplace.check(table)
    table.update(4, note="five")
    workplace.follow(table)
    assert workplace.state(table).applied == Mark(5)

    delete_progress(workplace)
    (report,) = workplace.merge().tables
    assert report.status == "current"
    assert workplace.merge().tables == []


@pytest.mark.fault("lake-restored", lakes="delta", stores="file")
@pytest.mark.slow
@pytest.mark.parametrize("workplace", ["delta"], indirect=True)
def test_a_delta_table_restored_to_before_its_first_merge_and_by_time(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    workplace.create_empty()
    workplace.merge()
    restore(workplace, table, 0)
    assert workplace.state(table).applied == NOTHING
    table.update(1, note="two")
    workplace.follow(table)

    version = workplace.state(table).snapshot
    assert version is not None
    history = workplace.spark.sql(f"DESCRIBE HISTORY {workplace.target(table)}")
    time = history.select(history.timestamp.cast("string")).first()
    assert time is not None
    table.update(1, note="three")
    source.commit()
    workplace.merge()
    workplace.spark.sql(f"RESTORE {workplace.target(table)} TO TIMESTAMP AS OF '{time[0]}'")
    restored = workplace.state(table)

    assert restored.hold is not None
    assert "RESTORE it again" in restored.hold.reason
    restore(workplace, table, version)
    assert workplace.state(table).applied == Mark(2)
    table.update(3, note="four")
    workplace.follow(table)


@pytest.mark.fault("merge-zombie", lakes="delta iceberg", stores="file")
@pytest.mark.parametrize(
    ("workplace", "killed"),
    [
        ("delta", True),
        ("iceberg", True),
        ("iceberg", False),
        pytest.param("delta", False, marks=pytest.mark.slow),
    ],
    indirect=["workplace"],
)
def test_a_delayed_merge_of_less_is_noticed_by_the_next_run(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch, *, killed: bool
) -> None:
    """A merge that planned manifest 2 commits when manifest 3 has taken back what it inserts."""
    source, table = a_table(workplace)
    workplace.merge()
    table.insert(id=10, note="two")
    source.commit()
    lake = type(workplace.lake)
    merge = lake.merge

    def delayed(*arguments: Any) -> Commit | None:
        monkeypatch.setattr(lake, "merge", merge)
        table.delete(10)
        source.commit()
        workplace.merge()
        try:
            return merge(*arguments)
        finally:
            if killed:
                raise KeyboardInterrupt

    monkeypatch.setattr(lake, "merge", delayed)
    if killed:
        with pytest.raises(KeyboardInterrupt):
            workplace.try_merge(through=2)
    else:
        (report,) = workplace.try_merge(through=2).tables
        assert report.status == "current" or report.retryable

    workplace.merge(through=2)
    workplace.check(table)
    assert workplace.state(table).applied == Mark(3)


@pytest.mark.fault("lake-dropped", lakes="delta iceberg", stores="file")
@in_either_format
def test_a_dropped_lake_table_is_not_begun_with_new_rows(workplace: Workplace) -> None:
    source, table = a_table(workplace, logged=False)
    other = source.create(workplace.database, "other", {"id": INT}, ("id",))
    other.insert(id=1)
    source.commit()
    workplace.merge()
    drop(workplace, table)
    table.insert(id=20, note="two")
    other.insert(id=2)
    source.commit()

    for _ in range(2):
        report = workplace.merge()
        (held,) = [each for each in report.tables if each.table == _name(table)]
        assert held.status == "loading"
        assert "was dropped" in held.reason
        assert workplace.lake.find_state(workplace.spark, workplace.target(table)) is None
    workplace.check(other)


@in_either_format
def test_a_table_that_was_not_captured_for_a_while_is_loading(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    fresh = source.create(workplace.database, "fresh", {"id": INT}, ("id",))
    fresh.insert(id=1)
    source.commit()
    workplace.merge(tables=["*.t"])
    source.exclude = ("*",)
    source.commit()
    workplace.merge(tables=["*.t"])
    source.exclude = ()
    table.update(1, note="again")
    fresh.insert(id=2)
    manifest = source.commit()
    before = workplace.found(table)

    for _ in range(2):
        report = workplace.merge()
        assert {each.table: each.status for each in report.tables} == {
            _name(table): "loading",
            _name(fresh): "loading",
        }
        assert "manifest 3 was captured without" in report.tables[0].reason
    assert workplace.found(table) == before
    state = workplace.state(table)
    assert state.hold == report.tables[0].hold
    assert read_hold(state.properties, Mark(manifest.sequence)) is None


@in_either_format
def test_a_quarantined_table_is_stale_and_the_others_are_merged(workplace: Workplace) -> None:
    source, table = a_table(workplace)
    good = source.create(workplace.database, "good", {"id": INT}, ("id",))
    expected = table.values
    table.update(1, note="not staged")
    table.quarantine("why")
    good.insert(id=1)
    source.commit()

    report = workplace.merge(initial_load="snapshot")
    states: list[tuple[int, list[str]]] = []
    for id_ in (10, 11):
        assert {each.table: each.status for each in report.tables} == {
            _name(good): "merged",
            _name(table): "stale",
        }
        assert report.held[0].reason == "the table was quarantined: why: reload the table"
        workplace.check(good)
        # A reader of one state of the source is not led to what is not live.
        assert report.versions.keys() == {_name(good)}
        states.append((report.versions[_name(good)], sorted_rows(good.values)))
        assert sorted_rows(workplace.found(table)) == sorted_rows(expected)
        table.insert(id=id_, note="after the gap")
        good.insert(id=id_)
        source.commit()
        report = workplace.merge(initial_load="snapshot")

    table.truncate()
    table.insert(id=1, note="again")
    source.commit()
    report = workplace.merge(initial_load="snapshot")
    assert report.held == []
    workplace.check(table, good)
    assert report.versions.keys() == {_name(good), _name(table)}
    assert report.stop == source.log.load(5).stop
    assert workplace.merge().versions == report.versions
    states.append((report.versions[_name(good)], sorted_rows(good.values)))
    for version, rows in states:
        at = f"SELECT * FROM {workplace.target(good)} VERSION AS OF {version}"
        assert sorted_rows([row.asDict() for row in workplace.spark.sql(at).collect()]) == rows


def test_a_table_with_rows_from_before_the_log_waits_or_begins_as_the_author_says(
    quick_workplace: Workplace,
) -> None:
    workplace = quick_workplace
    source, table = a_table(workplace, logged=False)
    truncated = source.create(workplace.database, "u", {"id": INT}, ("id",), logged=False)
    truncated.truncate()
    truncated.insert(id=1)
    whole = source.create(workplace.database, "v", {"id": INT}, ("id",))
    whole.insert(id=1)
    source.commit()
    names = [_name(each) for each in (table, truncated, whole)]

    def merge(choice: str) -> list[tuple[str, str]]:
        report = workplace.try_merge(initial_load=choice)
        assert [each.table for each in report.tables if each.status == "failed"] == (
            names[:1] if choice == "fail" else []
        )
        return [(each.table, each.status) for each in report.tables]

    first = merge("snapshot")
    assert first == list(zip(names, ("loading", "merged", "merged"), strict=True))
    whole.insert(id=2)
    source.commit()
    assert merge("snapshot") == [(names[0], "loading"), (names[2], "merged")]
    table.update(1, note="two")
    source.commit()
    assert merge("fail") == [(names[0], "failed")]
    assert merge("changes_only") == [(names[0], "merged")]

    workplace.check(table)
    assert workplace.state(table).lacks_rows
    assert not workplace.state(truncated).lacks_rows
    assert not workplace.state(whole).lacks_rows
    table.update(1, note="three")
    source.commit()
    assert merge("snapshot") == [(names[0], "merged")]
    assert workplace.state(table).lacks_rows
    table.truncate()
    source.commit()
    merge("snapshot")
    assert not workplace.state(table).lacks_rows


@pytest.mark.fault("manifest-damaged", lakes="iceberg", stores="file")
def test_a_missing_manifest_concerns_only_the_tables_that_need_it(
    quick_workplace: Workplace,
) -> None:
    source, table = a_table(quick_workplace)
    good = source.create(quick_workplace.database, "good", {"id": INT}, ("id",))
    good.insert(id=1)
    source.commit()
    quick_workplace.merge(exclude=["*.t"])
    table.update(1, note="two")
    good.insert(id=2)
    source.commit()
    data = quick_workplace.store.read(source.log.key(1))
    quick_workplace.store._fs.rm(quick_workplace.store._path(source.log.key(1)))

    for _ in range(2):
        held = quick_workplace.held()
        assert (held.table, held.status) == (_name(table), "loading")
        assert "not staged any more: reload it (manifest=1)" in held.reason
    quick_workplace.check(good)
    quick_workplace.store.write(source.log.key(1), data)
    good.insert(id=3)
    quick_workplace.follow(table, good)


def replace_by_hand(workplace: Workplace, table: Table, properties: dict[str, str]) -> None:
    """Make another table of the lake table, which has one row of it."""
    target = workplace.target(table)
    said = ", ".join(f"'{name}' = '{value}'" for name, value in properties.items())
    workplace.spark.sql(
        f"CREATE OR REPLACE TABLE {target} USING {workplace.format} TBLPROPERTIES ({said}) "
        "AS SELECT CAST(1 AS int) AS id, 'by hand' AS note"
    )


def test_a_table_that_was_replaced_by_hand_is_not_taken_for_the_one_before(
    workplace: Workplace,
) -> None:
    source, table = a_table(workplace)
    workplace.merge()
    before = workplace.state(table)
    kept = {name: each for name, each in before.properties.items() if name.startswith("binlog.")}
    table.update(1, note="two")
    source.commit()

    if workplace.format == "delta":
        # Iceberg keeps the properties.
        replace_by_hand(workplace, table, {"a": "b"})
        assert "does not follow this table" in str(workplace.failure().error)
    replace_by_hand(workplace, table, kept)
    for _ in range(2):
        held = workplace.held()
        assert (held.status, "was replaced" in held.reason) == ("loading", True)
        assert [row["note"] for row in workplace.found(table)] == ["by hand"]

    take_snapshot(table)
    workplace.follow(table)


def test_a_source_that_was_staged_again_from_its_first_manifest_on_is_refused(
    quick_workplace: Workplace,
) -> None:
    """Its manifests are not those of the same numbers that the lake table has got."""
    source, table = a_table(quick_workplace)
    quick_workplace.merge()
    table.update(1, note="two")
    source.commit()
    quick_workplace.merge()
    store = quick_workplace.store
    store._fs.rm(store._path(quick_workplace.source), recursive=True)
    again = quick_workplace.new_source()
    table.source = again
    again.identify(table)
    table.update(2, note="three")
    again.commit()

    failed = quick_workplace.failure()

    assert "another source name" in str(failed.error)
    assert not failed.retryable
