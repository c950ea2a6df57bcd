"""The merge on real Delta and Iceberg: after every merge the lake holds what SELECT returns."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.spark.target import spark_target
from airflow_provider_binlog.spark.target.iceberg import catalog
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, Mark, TargetState
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.session import reading_session
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    from airflow_provider_binlog.spark.target.protocol import Commit


def test_inserts_updates_and_deletes(workplace: Workplace) -> None:
    source = workplace.new_source()
    orders = source.create(workplace.database, "orders", {"id": INT, "note": TEXT}, ("id",))
    orders.identity.part_rows = 7
    for id_ in range(20):
        orders.insert(id=id_, note=f"note {id_}")
    source.commit()
    report = workplace.merge()
    workplace.check(orders)
    assert report.tables[0].changes == {"insert": 20}
    assert report.tables[0].rows == {"inserted": 20, "updated": 0, "deleted": 0}

    orders.update(3, note="changed")
    orders.update(4, id=104)
    orders.swap(5, 6, 99)
    orders.delete(7)
    orders.delete(8)
    orders.insert(id=8, note="again")
    orders.insert(id=30, note=None)
    orders.delete(30)
    source.commit()
    report = workplace.merge()
    workplace.check(orders)
    assert report.tables[0].rows == {"inserted": 1, "updated": 4, "deleted": 2}
    assert report.tables[0].missing_rows == 0

    again = workplace.merge()
    assert again.tables == []
    workplace.check(orders)


def test_updates_and_deletes_that_find_no_row_are_counted(workplace: Workplace) -> None:
    source = workplace.new_source()
    types: dict[str, ColumnType] = {"id": INT, "note": TEXT}
    old = source.create(workplace.database, "old", types, ("id",), logged=False)
    for id_ in range(10):
        old.load(id=id_, note="not in the log")

    def missing_rows() -> int | None:
        source.commit()
        (table,) = workplace.merge().tables
        return table.missing_rows

    old.update(1, note="changed")
    old.delete(2)
    old.update(3, id=13)
    old.insert(id=2, note="again")
    old.insert(id=20, note="new")
    assert missing_rows() == 3
    old.update(1, note="there")
    old.delete(2)
    old.update(4, note="not there")
    old.delete(5)
    old.update(13, id=3)
    old.insert(id=30, note="short")
    old.delete(30)
    assert missing_rows() == 2
    old.delete(1)
    assert missing_rows() == 0


def test_several_manifests_are_one_merge(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    orders = source.create(quick_workplace.database, "orders", {"id": INT, "note": TEXT}, ("id",))
    orders.insert(id=1, note="one")
    source.commit()
    orders.update(1, id=2)
    orders.insert(id=1, note="another one")
    source.commit()
    source.commit()
    orders.delete(2)
    source.commit()

    report = quick_workplace.merge(through=3)
    (table,) = report.tables
    assert (table.status, table.applied_before, table.applied_after) == (
        "merged",
        NOTHING,
        Mark(3),
    )
    quick_workplace.merge()

    quick_workplace.check(orders)
    assert quick_workplace.state(orders).applied == Mark(4)


# What a site may have chosen for its cluster.
CHOSEN = {
    "spark.sql.defaultCatalog": "lake",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "0",
    "spark.sql.parser.escapedStringLiterals": "true",
    "spark.sql.parser.quotedRegexColumnNames": "true",
}


def test_names_may_hold_anything(workplace: Workplace, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever a site has chosen that names, texts and rows depend on."""
    reading_session(workplace.spark)
    new_session = SparkSession.newSession

    def chosen(spark: SparkSession) -> SparkSession:
        session = new_session(spark)
        for setting, value in CHOSEN.items():
            session.conf.set(setting, value)
        return session

    monkeypatch.setattr(SparkSession, "newSession", chosen)
    source = workplace.new_source()
    names = ["from", "path", "order date", "a.b", "tick`s", "größe", "c0", "_metadata", "x=;(){},"]
    names += [
        'it\'s "quoted"',
        "new\r\nline\ttab",
        ";-- DROP TABLE t",
        "a/../b",
        "..",
        "\\'",
        "%2F",
    ]
    names += [
        "NULL",
        "{{ ds }}",
        "${env:PATH}",
        "/*x*/",
        "日本\u00e9",
        "\U0001f600",
        "\x01\x7f",
        "x" * 64,
    ]
    columns = dict.fromkeys(names, TEXT) | {"key": INT}
    database = f"{workplace.database} a/../b`';--\n"
    lower = source.create(database, "_a/b.c{d}'\"`\n;-- é\U0001f600", columns, ("key",))
    upper = source.create(database, "_A/B.C{D}'\"`\n;-- É\U0001f600", columns, ("key",))
    for table in (lower, upper):
        table.insert(key=1, **{name: name for name in names})
        table.insert(key=2, **{name: name for name in names})
    source.commit()
    workplace.merge()
    lower.update(1, path="changed", **{"a.b": "changed"})
    upper.delete(2)
    source.commit()

    workplace.merge()

    workplace.check(lower, upper)


TYPES = {
    "boolean": ColumnType("bit(1)", pa.bool_()),
    "int": ColumnType("int", pa.int32()),
    "bigint": ColumnType("bigint", pa.int64()),
    "unsigned": ColumnType("bigint unsigned", pa.decimal128(20, 0)),
    "float": ColumnType("float", pa.float32()),
    "double": ColumnType("double", pa.float64()),
    "decimal": ColumnType("decimal(38,10)", pa.decimal128(38, 10)),
    "text": TEXT,
    "binary": ColumnType("varbinary(9)", pa.binary()),
    "date": ColumnType("date", pa.date32()),
    "datetime": ColumnType("datetime(6)", pa.timestamp("us")),
    "timestamp": ColumnType("timestamp(6)", pa.timestamp("us", "UTC")),
    "vector": ColumnType("vector(3)", pa.list_(pa.float32())),
}
LOW = {
    "boolean": False,
    "int": -(2**31),
    "bigint": -(2**63),
    "unsigned": Decimal(0),
    "float": -0.25,
    "double": -1e308,
    "decimal": Decimal("-1234567890123456789012345678.0123456789"),
    "text": "",
    "binary": b"",
    "date": date(1000, 1, 1),
    "datetime": datetime(1000, 1, 1, 1, 2, 3, 4),
    "timestamp": datetime(1970, 1, 1, 0, 0, 1, tzinfo=UTC),
    "vector": [-0.25],
}
HIGH = {
    "boolean": True,
    "int": 2**31 - 1,
    "bigint": 2**63 - 1,
    "unsigned": Decimal(2**64 - 1),
    "float": 1.5,
    "double": 0.1,
    "decimal": Decimal("1E-10"),
    "text": "it's \\ a \u00e4 \U0001f600",
    "binary": b"\x00\xff\x00",
    "date": date(9999, 12, 31),
    "datetime": datetime(9999, 12, 31, 23, 59, 59, 999999),
    "timestamp": datetime(2038, 1, 19, tzinfo=UTC),
    "vector": [1.5, 0.0, -(2.0**100)],
}


def test_every_type_arrives_whatever_the_session_calls_a_timestamp(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    new_session = SparkSession.newSession

    def without_time_zone(spark: SparkSession) -> SparkSession:
        session = new_session(spark)
        session.conf.set("spark.sql.timestampType", "TIMESTAMP_NTZ")
        return session

    monkeypatch.setattr(SparkSession, "newSession", without_time_zone)
    source = workplace.new_source()
    table = source.create(workplace.database, "types", {"id": INT} | TYPES, ("id",))
    table.insert(id=1, **LOW)
    table.insert(id=2, **HIGH)
    table.insert(id=3)
    source.commit()
    workplace.merge()
    table.update(1, **HIGH)
    table.update(3, **LOW)
    source.commit()

    workplace.merge()

    workplace.check(table)


@in_either_format
def test_keys_of_many_types_merged_side_by_side(workplace: Workplace) -> None:
    source = workplace.new_source()
    tables = {}
    for key in ("unsigned", "double", "text", "binary", "timestamp"):
        columns = {key: TYPES[key], "n": INT}
        table = tables[key] = source.create(workplace.database, f"by_{key}", columns, (key,))
        table.insert(**{key: LOW[key]}, n=1)
        table.insert(**{key: HIGH[key]}, n=1)
    source.commit()
    workplace.merge(threads=3)
    for key, table in tables.items():
        table.update(LOW[key], n=2)
        table.delete(HIGH[key])
    source.commit()

    workplace.merge(threads=3)

    workplace.check(*tables.values())


def test_a_key_of_several_columns(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    columns = {name: TYPES[name] for name in ("binary", "unsigned", "text")} | {"n": INT}
    table = source.create(quick_workplace.database, "t", columns, ("binary", "unsigned", "text"))
    table.insert(binary=b"a", unsigned=Decimal(1), text="a", n=1)
    table.insert(binary=b"a", unsigned=Decimal(1), text="A", n=2)
    source.commit()
    quick_workplace.merge()
    table.update((b"a", Decimal(1), "a"), text="b")
    table.delete((b"a", Decimal(1), "A"))
    table.insert(binary=b"", unsigned=Decimal(1), text="A", n=3)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


@in_either_format
def test_a_table_without_a_key_becomes_a_changelog(workplace: Workplace) -> None:
    source = workplace.new_source()
    log = source.create(workplace.database, "log", {"text": TEXT, "n": BIGINT})
    log.insert(text="twice", n=1)
    log.insert(text="twice", n=1)
    source.commit()
    workplace.merge()
    log.update(1, n=2)
    log.delete(2)
    source.commit()
    log.truncate()
    log.insert(text="after", n=3)
    source.commit()
    workplace.merge()

    rows = sorted(workplace.found(log), key=lambda row: (row["_sequence"], row["_row"]))

    assert [(row["_sequence"], row["_change_type"], row["text"], row["n"]) for row in rows] == [
        (1, "insert", "twice", 1),
        (1, "insert", "twice", 1),
        (2, "update_preimage", "twice", 1),
        (2, "update_postimage", "twice", 2),
        (2, "delete", "twice", 1),
        (3, "truncate", None, None),
        (3, "insert", "after", 3),
    ]
    assert all(row["_binlog_file"] == "binlog.000001" for row in rows)

    empty = source.create(workplace.database, "empty", {"text": TEXT, "n": BIGINT})
    source.rename((log, "old"), (empty, "log"))
    empty.insert(text="in the next log", n=4)
    log.insert(text="late", n=5)
    source.commit()
    held = {table.table: table for table in workplace.merge().held}
    # Without a key, rows do not follow a renamed table.
    old, renamed = ".".join(log.name), ".".join(empty.name)
    assert held.keys() == {old, renamed}
    assert held[old].status == "stale"
    assert "were not logged under its name" in held[old].reason
    assert sorted(workplace.found(empty), key=lambda row: (row["_sequence"], row["_row"])) == rows


@in_either_format
def test_a_key_can_be_chosen(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"a": BIGINT, "b": TEXT})
    rules = TableRules({".".join(table.name): TableOptions(key=("a", "b"))})
    table.insert(a=1, b=None)
    table.insert(a=2, b="x")
    source.commit()
    workplace.merge(table_options=rules)
    table.update(1, b="now")
    table.update(2, a=None)
    source.commit()
    table.delete(2)
    source.commit()

    workplace.merge(table_options=rules)

    workplace.check(table)


def test_another_key_than_the_primary_one_needs_all_before_images(
    quick_workplace: Workplace,
) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"id": INT, "code": TEXT}, ("id",))
    table.insert(id=1, code="a")
    source.commit()

    failed = quick_workplace.failure(
        table_options=TableRules({".".join(table.name): TableOptions(key=("code",))})
    )

    assert "before_images" in str(failed.error)


def test_all_before_images_change_nothing(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source(before_images=BeforeImages.ALL)
    table = source.create(quick_workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    for id_ in range(5):
        table.insert(id=id_, note="new")
    source.commit()
    quick_workplace.merge()
    table.update(1, note="changed")
    table.swap(2, 3, 9)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


def test_tables_of_a_catalog(workplace: Workplace) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "a_b", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="one")
    source.commit()
    rules = TableRules({"*": TableOptions(target="cdc.{database}_{table}")})
    workplace.merge(table_options=rules)
    table.update(1, note="two")
    source.commit()

    (report,) = workplace.merge(table_options=rules).tables

    prefix = "`lake`." if workplace.format == "iceberg" else ""
    assert report.target == f"{prefix}`cdc`.`{workplace.database}_a_b`"
    assert workplace.spark.table(report.target).collect()[0]["note"] == "two"


@pytest.mark.parametrize("workplace", ["delta"], indirect=True)
def test_what_delta_noted_of_a_commit_is_not_computed_again(workplace: Workplace) -> None:
    session, lake = workplace.spark.newSession(), workplace.lake
    target = lake.target(workplace.database, "t")
    context: Any = session.sparkContext._jsc.sc()

    def state() -> TargetState:
        before = context.statusStore().jobsList(None).size()
        found = lake.find_state(session, target)
        assert context.statusStore().jobsList(None).size() == before
        assert found is not None
        return found

    workplace.make_empty(target, {"id": "int"}, {})
    created = state()
    change: Any = SimpleNamespace(
        table=target,
        owner=SimpleNamespace(source=workplace.source),
        mark=Mark(1),
        contents=Contents(Mark(1)),
        base=None,
        stop="binlog.000001:4",
    )
    lake.overwrite(session, change, created, "SELECT 1 AS id")
    written = state()

    assert (created.files, created.bytes, created.is_empty) == (0, 0, True)
    assert (written.files, written.bytes > 0, written.applied) == (1, True, Mark(1))


@pytest.mark.parametrize("workplace", ["iceberg"], indirect=True)
def test_files_of_a_small_table_are_rewritten_unless_its_options_say_otherwise(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    workplace.properties.clear()
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    table.insert(id=1, note="new")
    workplace.follow(table)

    def change(note: str, **options: Any) -> tuple[str, str]:
        """Merge an update and an insert; return the files of rows, and new ones of deletes."""
        table.update(1, note=note)
        table.insert(id=len(table.values) + 1, note=note)
        workplace.follow(table, **options)
        snapshots = workplace.spark.table(f"{workplace.target(table)}.snapshots")
        summary = snapshots.orderBy("committed_at").collect()[-1]["summary"]
        return summary["total-data-files"], summary.get("added-delete-files", "0")

    assert [change(f"small {number}") for number in range(3)] == [("1", "0")] * 3
    with monkeypatch.context() as patch:
        patch.setattr(catalog, "_REWRITTEN_BYTES", 0)
        assert change("large") == ("2", "1")
        chosen = TableOptions(properties={"write.merge.mode": "copy-on-write"})
        options = TableRules({"*": chosen})
        change("its properties are set after this merge", table_options=options)
        assert change("as the options say", table_options=options) == ("1", "0")
    merge_on_read = TableRules(
        {"*": TableOptions(properties={"write.merge.mode": "merge-on-read"})}
    )
    change("its properties are set after this merge", table_options=merge_on_read)
    assert change("as the options say", table_options=merge_on_read) == ("2", "1")
    assert change("small again") == ("1", "0")


@in_either_format
def test_a_large_table_is_searched_at_the_keys_that_changed(
    workplace: Workplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    for start in (0, 100, 200):
        for id_ in range(start, start + 10):
            table.insert(id=id_, note="new")
        source.commit()
        workplace.merge()
    assert workplace.state(table).files > 1
    # As a table of more than 64 MiB.
    for name in ("SMALL_TARGET_BYTES", "_FILTERED_BYTES", "_FILTERED_FACTOR"):
        monkeypatch.setattr(spark_target, name, 0)
    statements, plans = [], []
    lake = type(workplace.lake)
    merge = lake.merge

    def watch(*arguments: Any) -> Commit | None:
        _, session, _, _, statement = arguments
        statements.append(statement)
        plans.append(str(session.sql(f"EXPLAIN {statement}").collect()))
        return merge(*arguments)

    monkeypatch.setattr(lake, "merge", watch)
    table.update(203, id=207_000)
    table.update(105, note="changed")
    source.commit()
    workplace.merge()

    keys = (f"t.`id` = CAST('{key}' AS int)" for key in (105, 203, 207_000))
    assert f"({' OR '.join(keys)})" in statements[0]
    # Delta's targets are not filtered.
    assert "might_contain" in plans[0] or workplace.format == "delta"
    workplace.check(table)
