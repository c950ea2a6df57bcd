"""Tables without new rows: their columns, keys and names are followed."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    RenameField,
    RenameTable,
    SetKey,
    TruncateTable,
)
from airflow_provider_binlog.spark.target.state import (
    FIELDS,
    KEY,
    NOTHING,
    TABLE_ID,
    Contents,
    Mark,
)
from tests.unit.spark.plan.table_plans import ID_N, NEW, lake, plan, quiet, segment, stop
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Action, Schema


def test_columns_are_dropped_and_renamed_although_no_rows_come() -> None:
    found = segment(
        quiet(
            schema("id", column(3, "b"), id_=2),
            statement(15, DropField(ORDERS, 2, "n"), RenameField(ORDERS, 3, "m", "b")),
        ),
        state=lake(schema("id", "n", "m")),
    )

    assert (found.evolution.dropped, found.evolution.renamed) == (("n",), {"m": "b"})
    assert found.reads == ()


def test_a_new_column_waits_for_rows_that_show_its_type() -> None:
    added = statement(15, AddField(ORDERS, 3, "m"))
    wider = schema("id", "n", column(3, "m", None), id_=2)

    assert plan(quiet(wider, added), state=lake(ID_N)).segment is None


@pytest.mark.parametrize("empty", [False, True])
def test_rows_do_not_get_another_key(*, empty: bool) -> None:
    state = replace(lake(ID_N), is_empty=empty)
    rekeyed = quiet(schema("id", "n", key=("n",), id_=2), statement(15, SetKey(ORDERS, (2,))))

    found = plan(rekeyed, state=state)

    assert (found.stop is None) == empty
    assert (found.segment.key if found.segment else None) == (("n",) if empty else None)


@pytest.mark.parametrize(
    ("later", "actions", "key"),
    [
        (schema("n", key=(), id_=2), (DropField(ORDERS, 1, "id"), SetKey(ORDERS, ())), None),
        (schema("id", id_=2), (DropField(ORDERS, 2, "n"),), ("n",)),
    ],
    ids=["primary key", "chosen key"],
)
@pytest.mark.parametrize("rows", [(), ((10, 20),)], ids=["no rows", "rows before"])
def test_a_dropped_key_column_is_a_stop(
    later: Schema, actions: tuple[Action, ...], key: Any, rows: tuple[tuple[int, int], ...]
) -> None:
    of = table(rows, ID_N, later, images=((1, 2),))
    of = replace(of, parts=tuple(replace(each, schema=ID_N.id) for each in of.parts))
    dropped = manifest(4, of, statements=[statement(30, *actions)], before_images=BeforeImages.ALL)
    state = replace(lake(ID_N), properties=lake(ID_N).properties)
    if key:
        state.properties[KEY] = '["n"]'
    before, found = stop(dropped, state=state, key=key)

    assert "of the lake table's key was dropped" in found.reason
    assert found.mark == Mark(3, 1)
    assert (before is not None) == bool(rows)


def test_a_table_that_is_created_again_without_a_key_waits_for_its_first_row() -> None:
    again = [statement(25, DropTable(ORDERS, NAME)), statement(30, CreateTable(NEW, NAME))]
    no_key = schema("x", "y", key=())
    without = replace(table((), no_key, id_=NEW, created=4), logged=None)
    replaced = manifest(4, table((), dropped=True), without, statements=again)
    found = segment(replaced, state=lake(ID_N))

    assert (found.key, list(found.columns), found.starts_empty) == (("id",), ["id", "n"], True)
    assert not found.evolution.fields
    empty = replace(
        lake(ID_N),
        properties=lake(ID_N).properties | {TABLE_ID: NEW, FIELDS: "{}"},
        contents=Contents(Mark(4), NEW),
        is_empty=True,
    )
    of = table([(10, 20)], schema("x", "y", key=("y",)), id_=NEW, created=4)
    keyed = segment(manifest(5, of), state=empty)
    assert (keyed.key, list(keyed.columns)) == (("y",), ["x", "y"])
    _, found_stop = stop(manifest(5, table([(10, 20)], no_key, id_=NEW, created=4)), state=empty)
    assert "primary key was dropped" in found_stop.reason


def test_a_lake_table_with_another_key_is_refused() -> None:
    state, rows = lake(schema("id", "n", key=("n",))), manifest(4, table([(10, 20)]))
    by_hand = replace(state, properties={KEY: state.properties[KEY]}, contents=Contents(NOTHING))

    with pytest.raises(MergeError, match=r"another key.*found=n, wanted=id"):
        plan(rows, state=by_hand)
    assert segment(rows, state=state).key == ("id",)


def test_a_key_that_is_dropped_and_added_again_is_kept() -> None:
    dropped, added = statement(15, SetKey(ORDERS, ())), statement(25, SetKey(ORDERS, (1,)))
    without = quiet(schema("id", "n", key=(), id_=2), dropped)

    assert plan(without, state=lake(ID_N)).segment is None
    again = manifest(5, table([(30, 40)], schema("id", "n", id_=3)), statements=[added])
    assert segment(without, again, state=lake(ID_N)).key == ("id",)


def test_a_truncate_alone_is_a_segment() -> None:
    truncated = statement(15, TruncateTable(ORDERS))

    assert segment(quiet(ID_N, truncated), state=lake(ID_N)).starts_empty
    assert plan(quiet(ID_N, truncated)).segment is None


def exchanged(*rows: tuple[int, int], **entry: Any) -> Manifest:
    """Return a manifest in which a name got another table without a key."""
    no_key, away = schema("n", key=()), ("shop", "away")
    renamed = [
        statement(25, RenameTable(ORDERS, NAME, away)),
        statement(35, RenameTable(NEW, ("shop", "new"), NAME)),
    ]
    return manifest(
        4,
        table([(10, 20), (30, 31)], no_key, name=away),
        table(rows, no_key, id_=NEW, **entry),
        statements=renamed,
    )


@pytest.mark.parametrize("entry", [{"created": 4}, {}], ids=["with rows", "older than the log"])
def test_a_changelog_lacks_the_rows_that_its_table_had_before_it_was_renamed(
    entry: dict[str, Any],
) -> None:
    rows = [(5, 6), (40, 50)] if entry else [(40, 50)]

    before, found = stop(exchanged(*rows, **entry))

    assert (before is not None, found.point) == (True, (4, 35))
    assert "were not logged under its name" in found.reason


def test_a_renamed_table_without_a_key_and_without_new_rows_is_a_stop() -> None:
    renamed = statement(35, RenameTable(ORDERS, ("shop", "new"), NAME))
    before, found = stop(manifest(4, table([(5, 6)], schema("n", key=())), statements=[renamed]))

    assert (before, found.point) == (None, (4, 35))


def test_a_changelog_keeps_columns_of_all_its_rows() -> None:
    old, new = schema("n", "m", key=()), schema(column(1, "k", "int64"), key=(), id_=2)
    found = segment(manifest(4, table([(10, 20), (40, 50)], old, new)))

    assert found.columns == {"k": "bigint", "n": "int", "m": "int"}


def test_a_drop_alone_is_noted_once() -> None:
    dropped = manifest(4, table(dropped=True), statements=[statement(15, DropTable(ORDERS, NAME))])

    found = plan(dropped, state=lake(ID_N))
    assert found.ended
    assert found.segment is not None
    assert found.segment.ends
    assert plan(dropped, state=lake(ID_N, ended="3")).segment is None
