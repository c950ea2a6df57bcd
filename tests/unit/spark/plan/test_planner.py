"""Table plans: what is read, by which key, in which columns; and what is refused before that."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError, ReloadNeededError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropTable,
    Field,
    QuarantineTable,
    RenameField,
    SetKey,
    TruncateTable,
    UnknownDefault,
)
from airflow_provider_binlog.spark.target.delta.table import find_barrier
from airflow_provider_binlog.spark.target.state import Contents, Mark
from tests.unit.spark.plan.table_plans import ID_N, NEW, lake, plan, segment, stop
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Action, Schema
    from airflow_provider_binlog.spark.target.state import TargetState


def closed(state: TargetState) -> TargetState:
    """Return a lake table that must not get features."""
    barrier = partial(find_barrier, columns=state.columns, properties=state.properties)
    return replace(state, find_barrier=barrier)


def test_parts_in_one_schema_are_read_together() -> None:
    found = segment(
        manifest(4, table([(10, 20), (30, 40)])), manifest(5), manifest(6, table([(5, 6)]))
    )

    (rows,) = found.reads
    assert len(rows.parts) == 3
    assert found.columns == {"id": "int", "n": "int"}
    assert (found.key, found.rows) == (("id",), 6)


def test_parts_from_before_a_truncate_are_not_read() -> None:
    truncated = statement(35, TruncateTable(ORDERS))
    found = segment(
        manifest(4, table([(10, 20)])),
        manifest(5, table([(10, 20), (40, 45), (50, 60)]), statements=[truncated]),
        state=lake(ID_N),
    )

    assert [each.first_row for each in found.parts] == [40, 50]
    assert found.starts_empty


def test_a_changelog_keeps_what_was_before_a_truncate() -> None:
    no_key = schema("n", key=())
    truncated = statement(35, TruncateTable(ORDERS))
    found = segment(manifest(4, table([(10, 20)], no_key), statements=[truncated]))

    assert found.is_changelog
    assert (found.rows, len(found.removals)) == (2, 1)
    assert list(found.target_columns)[-2:] == ["_sequence", "_absent"]


def test_a_changelog_continues_after_its_table_was_created_again() -> None:
    no_key = schema("n", key=())
    again = [statement(25, DropTable(ORDERS, NAME)), statement(30, CreateTable(NEW, NAME))]
    found = segment(
        manifest(
            4,
            table([(10, 20)], no_key, dropped=True),
            table([(40, 50)], no_key, id_=NEW, created=4),
            statements=again,
        )
    )

    assert [each.first_row for each in found.parts] == [10, 40]
    assert [each.point for each in found.removals] == [(4, 25)]


def altered(*later: Schema, rows: tuple[tuple[int, int], ...] = ((10, 20), (40, 50))) -> Manifest:
    return manifest(4, table(rows, ID_N, *later))


def test_rows_from_before_a_column_hold_its_initial_default() -> None:
    wider = schema(
        "id",
        "n",
        column(3, "m"),
        column(4, "k", initial=Default("7")),
        id_=2,
    )
    before, after = segment(altered(wider)).reads

    assert (list(before.columns), before.initial) == (["id", "n"], {"k": 7})
    assert (list(after.columns), after.initial) == (["id", "n", "m", "k"], {})


def test_columns_are_read_by_their_field_ids() -> None:
    exchanged = schema(column(1, "id", nullable=False), column(2, "m"), column(3, "n"), id_=2)
    before, after = segment(altered(exchanged)).reads

    assert before.names == {"id": "id", "m": "n"}
    assert after.names == {"id": "id", "m": "m", "n": "n"}


@pytest.mark.parametrize(
    ("later", "action", "says"),
    [
        (
            schema("id", column(2, "n", "string"), id_=2),
            AlterField(ORDERS, 2, "n", "int", "varchar(9)"),
            "the column n was int in the lake, and is string now",
        ),
        (
            schema("id", "n", column(3, "m", initial=UnknownDefault("it is NOW()")), id_=2),
            AddField(ORDERS, 3, "m"),
            "the value that older rows have in the new column m is not known: it is NOW()",
        ),
        (
            schema("id", "n", key=(), id_=2),
            SetKey(ORDERS, ()),
            (
                "the table's primary key was dropped, and the lake table's rows are known by it "
                "(choose a key with options={...}, or drop the lake table, before the reload)"
            ),
        ),
    ],
    ids=["type", "default", "no key"],
)
def test_what_no_lake_table_follows_is_a_stop(later: Schema, action: Action, says: str) -> None:
    altered = statement(30, action)
    both = manifest(4, table([(10, 20), (40, 50)], ID_N, later), statements=[altered])
    before, found = stop(both)

    assert before is not None
    assert [each.first_row for each in before.parts] == [10]
    assert before.mark == found.mark == Mark(3, 1)
    assert (found.reason, found.position) == (says, f"{LOG}:30")
    # The lake has what is before: again it stops there, and nothing is committed.
    state = replace(lake(ID_N), contents=Contents(Mark(3, 1)))
    assert stop(both, state=state) == (None, found)


@pytest.mark.parametrize("named", [False, True])
def test_a_lake_table_that_is_not_to_be_upgraded_stops_where_it_would_have_to_be(
    named: bool,
) -> None:
    state = closed(lake(ID_N))
    wider = schema("id", "n", column(3, "m"), id_=2)
    renamed = schema("id", column(2, "k"), column(3, "m"), id_=3)
    statements = [
        statement(30, AddField(ORDERS, 3, "m")),
        *([statement(60, RenameField(ORDERS, 2, "n", "k"))] if named else []),
    ]
    both = manifest(
        4,
        table([(10, 20), (40, 50), (70, 80)], ID_N, wider, renamed),
        statements=statements,
    )
    both = replace(both, tables=(replace(both.tables[0], parts=parts(1, 2, 3)),))

    before, found = stop(both, state=state)

    assert "need column mapping for its columns" in found.reason
    if named:
        assert before is not None
        assert ([each.first_row for each in before.parts], before.mark) == ([10, 40], Mark(3, 2))
        assert before.evolution.added == {"m": "int"}
        state = replace(state, contents=Contents(Mark(3, 2)), columns={**state.columns, "m": "int"})
        assert stop(both, state=state) == (None, found)
    else:
        assert (before, found.mark) == (None, Mark(3))
    mapped = closed(
        replace(state, properties=state.properties | {"delta.columnMapping.mode": "name"})
    )
    segment(both, state=mapped)


def test_a_lake_table_that_is_not_to_be_upgraded_keeps_its_rows_as_its_table_is_created_again() -> (
    None
):
    other = schema("id", column(2, "k"))
    again = [statement(25, DropTable(ORDERS, NAME)), statement(30, CreateTable(NEW, NAME))]
    old = table([(10, 20)], ID_N, dropped=True)

    for rows in ([(40, 50)], []):
        new = table(rows, other, id_=NEW, created=4)
        found = stop(manifest(4, old, new, statements=again), state=closed(lake(ID_N)))

        assert (found[0], found[1].mark) == (None, Mark(3))


def parts(*schemas: int) -> tuple[Part, ...]:
    """Return three parts, each with the schema of its number."""
    rows = ((10, 20), (40, 50), (70, 80))
    return tuple(
        Part(f"{first}", its, 2, 100, "", first, last, 0, 0, {"insert": 2})
        for (first, last), its in zip(rows, schemas, strict=True)
    )


def test_types_that_nothing_altered_stop_before_the_manifest() -> None:
    text = manifest(5, table([(40, 50)], schema("id", column(2, "n", "string"), id_=2)))
    before, found = stop(manifest(4, table([(10, 20)])), text)

    assert before is not None
    assert before.mark == found.mark == Mark(4)


def test_rows_that_are_known_by_another_key_end_at_its_change() -> None:
    later, rekeyed = schema("id", "n", key=("n",), id_=2), statement(30, SetKey(ORDERS, (2,)))
    both = manifest(4, table([(10, 20), (40, 50)], ID_N, later), statements=[rekeyed])
    of_new = manifest(4, table([(40, 50)], later), statements=[rekeyed])

    before, found = stop(both)
    assert before is not None
    assert (before.key, before.mark, len(before.parts)) == (("id",), Mark(3, 1), 1)
    assert "the table's primary key changed" in found.reason
    assert stop(of_new, state=lake(ID_N))[0] is None
    empty = replace(lake(ID_N), is_empty=True)
    assert segment(of_new).key == segment(of_new, state=empty).key == ("n",)


def test_a_column_gets_a_type_that_holds_the_values_of_both() -> None:
    decimal = Field(2, "n", "decimal(5,2)", "decimal128(5, 2)", nullable=True)
    later = schema("id", decimal, id_=2)
    found = segment(
        manifest(
            4,
            table([(10, 20), (40, 50)], ID_N, later),
            statements=[statement(30, AlterField(ORDERS, 2, "n", "int", "decimal(5,2)"))],
        ),
        state=lake(ID_N),
    )

    assert found.columns == {"id": "int", "n": "decimal(12,2)"}
    assert found.evolution.widened == {"n": "decimal(12,2)"}
    assert len(found.reads) == 2


def test_columns_that_the_same_images_lack_are_one_group() -> None:
    five = schema("id", "a", "b", "c", "d")
    assert segment(manifest(4, table([(10, 20)], five))).groups == ()

    found = segment(
        manifest(4, table([(10, 20)], five, images=((1, 2, 3, 4, 5), (1, 2, 3, 5)))),
        manifest(5, table([(10, 20)], five, images=((1, 5), (1, 2, 3, 4, 5)))),
    )

    assert found.groups == (("a", "b"), ("c",))


def test_an_image_of_an_earlier_schema_may_be_a_part_of_a_later_one() -> None:
    wider = schema("id", "n", column(3, "m"), id_=2)

    assert segment(altered(wider)).groups == (("m",),)


def test_an_image_without_the_key_is_refused() -> None:
    partial = manifest(4, table([(10, 20)], images=((1, 2), (1,))), before_images=BeforeImages.ALL)

    with pytest.raises(MergeError, match="columns=n"):
        plan(partial, key=("n",))


@pytest.mark.parametrize("name", ["_row", "_change_type", "_sequence", "_binlog_file"])
def test_a_column_with_the_name_of_a_change_column_is_refused(name: str) -> None:
    with pytest.raises(MergeError, match=f"column={name}"):
        plan(manifest(4, table([(10, 20)], schema("id", name))))


@pytest.mark.parametrize(("one", "other"), [("n", "N"), ("οδοσ", "οδος"), ("ß", "ẞ")])
def test_columns_that_spark_takes_for_one_are_refused(one: str, other: str) -> None:
    """MySQL distinguishes all but the first."""
    with pytest.raises(MergeError, match=f"differ only in case.*column={other}, other={one}"):
        plan(manifest(4, table([(10, 20)], schema("id", one, other))))


def test_a_chosen_key_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="columns=x"):
        plan(manifest(4, table([(10, 20)])), key=("x",))


def test_a_table_without_a_primary_key_is_merged_by_the_chosen_key() -> None:
    without = table([(10, 20)], schema("id", "n", key=()))

    found = segment(manifest(4, without), key=("n",))

    assert (found.key, found.null_safe, found.rows) == (("n",), True, 2)


def test_a_chosen_key_other_than_the_primary_key_needs_all_before_images() -> None:
    key = ("n",)
    with pytest.raises(ConfigurationError, match="before_images"):
        plan(manifest(4, table([(10, 20)])), key=key)

    found = segment(manifest(4, table([(10, 20)]), before_images=BeforeImages.ALL), key=key)

    assert (found.key, found.null_safe) == (("n",), True)


def test_a_column_that_the_options_protect_is_not_merged_as_it_is() -> None:
    staged = manifest(4, table([(10, 20)]))
    rules: list[dict[str, Any]] = [{"exclude_columns": ("N",)}, {"hash_columns": ("n",)}]
    for options in rules:
        with pytest.raises(ReloadNeededError, match=r"options.*column=n.*table=shop.orders"):
            plan(staged, **options)
    n = replace(column(2, "n"), hashed="a", origin=("shop", "orders", "n"))
    of = replace(schema("id"), fields=(column(1, "id"), n))
    assert segment(manifest(4, table([(10, 20)], of)), hash_columns=("n",)).rows == 2
    # Without rows there is nothing to hide.
    assert plan(manifest(4, table([])), state=lake(ID_N), exclude_columns=("n",)).segment is None


@pytest.mark.parametrize("key", ["id", ""], ids=["key", "no key"])
def test_a_table_that_is_created_and_dropped_within_a_range_needs_nothing(key: str) -> None:
    created = statement(5, CreateTable(ORDERS, NAME))
    dropped = statement(50, DropTable(ORDERS, NAME))
    quarantined = statement(20, QuarantineTable(ORDERS, "why"))
    of = schema("id", "n", key=(key,) if key else ())
    entry = table([(10, 20)], of, created=4, dropped=True)

    found = plan(manifest(4, entry, statements=[created, quarantined, dropped]))

    assert (found.segment, found.stop, found.ended) == (None, None, True)
