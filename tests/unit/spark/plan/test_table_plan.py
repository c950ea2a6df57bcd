"""Table plans: what is read, by which key, in which columns; and what is refused before that."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.manifest import Part
from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    Field,
    QuarantineTable,
    RenameField,
    RenameTable,
    RewriteRows,
    SetKey,
    TruncateTable,
    UnknownDefault,
)
from airflow_provider_binlog.spark.lake.table_format import (
    ENDED,
    FIELDS,
    KEY,
    TABLE_ID,
    TargetState,
)
from airflow_provider_binlog.spark.mark import NOTHING, Contents, Mark
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, plan_table
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.schema import Action, Schema, TableName
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.stops import Stop

ID_N = schema("id", "n")
NEW = "00000000000000bb"


def plan(
    *manifests: Manifest,
    keys: dict[TableName, tuple[str, ...]] | None = None,
    state: TargetState | None = None,
) -> TablePlan:
    log = TableLog(manifests)
    found = plan_table(NAME, log, first=log.first, state=state, keys=keys or {})
    assert found is not None
    return found


def segment(*manifests: Manifest, **options: Any) -> Segment:
    found = plan(*manifests, **options)
    assert found.segment is not None
    assert (found.stop, found.more) == (None, False)
    return found.segment


def stop(*manifests: Manifest, **options: Any) -> tuple[Segment | None, Stop]:
    """Return what is committed before the stop, and the stop."""
    found = plan(*manifests, **options)
    assert found.stop is not None
    return found.segment, found.stop


def lake(of: Schema, *, ended: str = "") -> TargetState:
    """Return a lake table with the rows of `ORDERS` in a schema."""
    names = {each.id: each.name for each in of.fields}
    return TargetState(
        columns={each.name: "int" for each in of.fields},
        column_ids={each.name: f"c{each.id}" for each in of.fields},
        properties={
            TABLE_ID: ORDERS,
            KEY: json.dumps([names[each] for each in of.key]),
            FIELDS: json.dumps({str(each): (f"c{each}", "0") for each in names}),
            ENDED: ended,
        },
        contents=Contents(Mark(3)),
        files=1,
        bytes=0,
        is_empty=False,
        snapshot=1,
    )


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

    assert (list(before.columns), before.initial) == (["id", "n"], {"k": "CAST('7' AS int)"})
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
                "(choose a key with keys={...}, or drop the lake table, before the reload)"
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
    assert before.mark == found.cut.mark == Mark(3, 1)
    assert (found.reason, found.cut.position) == (says, f"{LOG}:30")
    # The lake has what is before: again it stops there, and nothing is committed.
    state = replace(lake(ID_N), contents=Contents(Mark(3, 1)))
    assert stop(both, state=state) == (None, found)


@pytest.mark.parametrize("named", [False, True])
def test_a_lake_table_that_is_not_to_be_upgraded_stops_where_it_would_have_to_be(
    named: bool,
) -> None:
    state = replace(lake(ID_N), upgrade=False)
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
        assert (before, found.cut.mark) == (None, Mark(3))
    mapped = replace(state, properties=state.properties | {"delta.columnMapping.mode": "name"})
    segment(both, state=mapped)


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
    assert before.mark == found.cut.mark == Mark(4)


def test_rows_before_and_after_a_new_key_are_two_segments() -> None:
    later, rekeyed = schema("id", "n", key=("n",), id_=2), statement(30, SetKey(ORDERS, (2,)))
    both = manifest(4, table([(10, 20), (40, 50)], ID_N, later), statements=[rekeyed])
    first = plan(both)

    assert first.segment is not None
    assert (first.segment.key, first.segment.mark, first.more) == (("id",), Mark(3, 1), True)
    assert len(first.parts) == 2
    second = segment(both, state=replace(lake(ID_N), contents=Contents(first.segment.mark)))
    assert [each.first_row for each in second.parts] == [40]
    assert (second.key, second.mark) == (("n",), Mark(4))


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
        plan(partial, keys={NAME: ("n",)})


@pytest.mark.parametrize("name", ["_row", "_change_type", "_sequence", "_binlog_file"])
def test_a_column_with_the_name_of_a_change_column_is_refused(name: str) -> None:
    with pytest.raises(MergeError, match=f"column={name}"):
        plan(manifest(4, table([(10, 20)], schema("id", name))))


def test_a_chosen_key_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="columns=x"):
        plan(manifest(4, table([(10, 20)])), keys={NAME: ("x",)})


def test_a_table_without_a_primary_key_is_merged_by_the_chosen_key() -> None:
    without = table([(10, 20)], schema("id", "n", key=()))

    found = segment(manifest(4, without), keys={NAME: ("n",)})

    assert (found.key, found.null_safe, found.rows) == (("n",), True, 2)


def test_a_chosen_key_other_than_the_primary_key_needs_all_before_images() -> None:
    keys: dict[TableName, tuple[str, ...]] = {NAME: ("n",)}
    with pytest.raises(ConfigurationError, match="before_images"):
        plan(manifest(4, table([(10, 20)])), keys=keys)

    found = segment(manifest(4, table([(10, 20)]), before_images=BeforeImages.ALL), keys=keys)

    assert (found.key, found.null_safe) == (("n",), True)


# ------------------------------------------------------------ a table without new rows


def quiet(to: Schema, *statements: Statement) -> Manifest:
    return manifest(4, table((), to), statements=statements)


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


def test_the_same_rows_may_get_another_key() -> None:
    found = segment(
        quiet(schema("id", "n", key=("n",), id_=2), statement(15, SetKey(ORDERS, (2,)))),
        state=lake(ID_N),
    )

    assert found.key == ("n",)


@pytest.mark.parametrize(
    ("later", "actions", "keys"),
    [
        (schema("n", key=(), id_=2), (DropField(ORDERS, 1, "id"), SetKey(ORDERS, ())), {}),
        (schema("id", id_=2), (DropField(ORDERS, 2, "n"),), {NAME: ("n",)}),
    ],
    ids=["primary key", "chosen key"],
)
@pytest.mark.parametrize("rows", [(), ((10, 20),)], ids=["no rows", "rows before"])
def test_a_dropped_key_column_is_a_stop(
    later: Schema, actions: tuple[Action, ...], keys: Any, rows: tuple[tuple[int, int], ...]
) -> None:
    of = table(rows, ID_N, later, images=((1, 2),))
    of = replace(of, parts=tuple(replace(each, schema=ID_N.id) for each in of.parts))
    dropped = manifest(4, of, statements=[statement(30, *actions)], before_images=BeforeImages.ALL)
    state = replace(lake(ID_N), properties=lake(ID_N).properties)
    if keys:
        state.properties[KEY] = '["n"]'
    before, found = stop(dropped, state=state, keys=keys)

    assert "of the lake table's key was dropped" in found.reason
    assert found.cut.mark == Mark(3, 1)
    assert (before is not None) == bool(rows)


def test_a_key_that_loses_one_of_its_columns_is_the_rest() -> None:
    dropped = statement(15, DropField(ORDERS, 2, "n"), SetKey(ORDERS, (1,)))
    found = segment(
        quiet(schema("id", id_=2), dropped), state=lake(schema("id", "n", key=("id", "n")))
    )

    assert (found.key, list(found.columns)) == (("id",), ["id"])


def test_a_table_that_is_created_again_without_a_key_waits_for_its_first_row() -> None:
    again = [statement(25, DropTable(ORDERS, NAME)), statement(30, CreateTable(NEW, NAME))]
    no_key = schema("x", "y", key=())
    without = replace(table((), no_key, id_=NEW, created=4), logged=None)
    replaced = manifest(4, table((), dropped=True), without, statements=again)
    found = segment(replaced, state=lake(ID_N))

    assert (found.key, list(found.columns), found.starts_empty) == (("id",), ["id", "n"], True)
    assert not found.fields
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
    dropped, added = statement(15, SetKey(ORDERS, ())), statement(25, SetKey(ORDERS, (2,)))
    without = quiet(schema("id", "n", key=(), id_=2), dropped)

    assert plan(without, state=lake(ID_N)).segment is None
    again = manifest(5, table([(30, 40)], schema("id", "n", key=("n",), id_=3)), statements=[added])
    assert segment(without, again, state=lake(ID_N)).key == ("n",)


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


def test_a_changelog_has_the_rows_that_were_logged_under_its_name() -> None:
    found = segment(exchanged((40, 50), created=4))

    assert [each.first_row for each in found.parts] == [10, 40]
    assert [each.point for each in found.removals] == [(4, 25)]


@pytest.mark.parametrize("entry", [{"created": 4}, {}], ids=["with rows", "older than the log"])
def test_a_changelog_lacks_the_rows_that_its_table_had_before_it_was_renamed(
    entry: dict[str, Any],
) -> None:
    rows = [(5, 6), (40, 50)] if entry else [(40, 50)]

    before, found = stop(exchanged(*rows, **entry))

    assert (before is not None, found.cut.point) == (True, (4, 35))
    assert "were not logged under its name" in found.reason


def test_a_changelog_continues_with_a_table_that_was_truncated_before_it_was_renamed() -> None:
    found = exchanged((5, 6), (40, 50))
    truncated = replace(found, statements=(statement(7, TruncateTable(NEW)), *found.statements))

    assert [each.first_row for each in segment(truncated).parts] == [10, 40]


def test_a_renamed_table_without_a_key_and_without_new_rows_waits() -> None:
    renamed = statement(35, RenameTable(ORDERS, ("shop", "new"), NAME))
    found = plan(manifest(4, table([(5, 6)], schema("n", key=())), statements=[renamed]))

    assert (found.table, found.segment, found.waits is not None) == (None, None, True)


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


# ------------------------------------------------------------ quarantined tables

QUARANTINED = QuarantineTable(ORDERS, "a column of this type is not decoded (type=DECIMAL)")


def test_a_quarantine_is_a_stop() -> None:
    begins = statement(15, QUARANTINED, text="")

    before, found = stop(manifest(4, table([(10, 14)]), statements=[begins]))
    assert before is not None
    assert [each.first_row for each in before.parts] == [10]
    assert found.explanation == (
        "the table was quarantined: a column of this type is not decoded (type=DECIMAL): "
        "reload the table"
    )
    assert found.cut.position == "binlog.000001:15"


def test_a_quarantined_table_without_rows_or_lake_table_is_not_created() -> None:
    found = plan(manifest(4, table(), statements=[statement(15, QUARANTINED)]))

    assert found.segment is None
    assert found.stop is not None


@pytest.mark.parametrize("key", ["id", ""])
def test_a_quarantine_stops_a_table_that_the_log_has_from_its_creation(key: str) -> None:
    columns = schema("id", "n", key=tuple(key.split()))
    steps = statement(5, CreateTable(ORDERS, NAME)), statement(15, QUARANTINED)

    before, found = stop(manifest(4, table([(10, 14)], columns), statements=steps))

    assert before is not None
    assert before.is_changelog != bool(key)
    assert found.cut.mark == Mark(3, 2)


def test_a_quarantine_before_a_truncate_does_not_matter_and_one_after_it_does() -> None:
    begins, truncated = statement(15, QUARANTINED), statement(25, TruncateTable(ORDERS))
    again = statement(35, QUARANTINED)

    assert segment(quiet(ID_N, begins, truncated), state=lake(ID_N)).starts_empty
    before, found = stop(quiet(ID_N, begins, truncated, again), state=lake(ID_N))
    assert before is not None
    assert before.starts_empty
    assert found.cut.point == (4, 35)


# ------------------------------------------------------------ rewritten rows

WHOLE = RewriteRows(ORDERS, "dropped a partition")
VALUES = RewriteRows(ORDERS, "shortened the values of n", 2)


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_rewritten_rows_are_a_stop(action: RewriteRows) -> None:
    rewritten = statement(15, action, text="ALTER TABLE orders ... p0")

    before, found = stop(manifest(4, table([(10, 14), (20, 30)]), statements=[rewritten]))
    assert before is not None
    assert [each.first_row for each in before.parts] == [10]
    assert found.explanation == (
        f"rows changed without row events, because the statement {action.reason} "
        "(ALTER TABLE orders ... p0): reload the table"
    )
    before, found = stop(quiet(ID_N, rewritten), state=lake(ID_N))
    assert before is None


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_a_rewrite_of_a_table_without_rows_passes(action: RewriteRows) -> None:
    created, rewritten = statement(5, CreateTable(ORDERS, NAME)), statement(15, action)
    found = manifest(4, table([(20, 30)], created=4), statements=[created, rewritten])

    assert segment(found).rows == 2


def test_a_rewrite_may_bring_rows_into_a_table_that_is_not_complete() -> None:
    truncated, rewritten = statement(5, TruncateTable(ORDERS)), statement(15, WHOLE)

    before, found = stop(quiet(ID_N, truncated, rewritten), state=lake(ID_N))

    assert before is not None
    assert before.starts_empty
    assert "dropped a partition" in found.reason


def test_a_rewrite_before_a_truncate_does_not_matter() -> None:
    truncated, rewritten = statement(25, TruncateTable(ORDERS)), statement(15, WHOLE)

    assert segment(quiet(ID_N, rewritten, truncated), state=lake(ID_N)).starts_empty


def test_rewritten_values_of_a_column_that_was_dropped_do_not_matter() -> None:
    rewritten, dropped = statement(15, VALUES), statement(25, DropField(ORDERS, 2, "n"))

    found = segment(quiet(schema("id", id_=2), rewritten, dropped), state=lake(ID_N))

    assert found.evolution.dropped == ("n",)


def test_rewritten_values_of_a_column_that_waits_for_its_type_are_refused() -> None:
    added, rewritten = statement(15, AddField(ORDERS, 3, "m")), RewriteRows(ORDERS, "rewrote", 3)
    wider = schema("id", "n", column(3, "m", None), id_=2)

    _, found = stop(quiet(wider, added, statement(25, rewritten)), state=lake(ID_N))

    assert "the statement rewrote" in found.reason


def test_a_changelog_keeps_values_as_they_were_logged() -> None:
    no_key = schema("id", "n", key=())

    assert segment(
        manifest(4, table([(10, 14)], no_key), statements=[statement(15, VALUES)])
    ).is_changelog


def test_a_dropped_table_that_cannot_be_followed_is_left_as_it_is() -> None:
    steps = statement(15, WHOLE), statement(25, DropTable(ORDERS, NAME))
    found = plan(manifest(4, table([(10, 14)], dropped=True), statements=steps), state=lake(ID_N))

    assert (found.table, found.ended, found.changes) == (None, True, {})


@pytest.mark.parametrize("keys", [{}, {NAME: ("n",)}], ids=["of the table", "chosen"])
def test_a_key_that_another_value_stands_for_is_not_followed(keys: dict[TableName, Any]) -> None:
    def staged(sequence: int, **replaced: int) -> Manifest:
        first = 10 * sequence
        entry = table([(first, first + 9)], schema("id", "n", "m"))
        parts = (replace(entry.parts[0], replaced=replaced),)
        return manifest(sequence, replace(entry, parts=parts), before_images=BeforeImages.ALL)

    key, no_key = ("n", "id") if keys else ("id", "n")
    other = staged(4, m=3, **{no_key: 2})

    found = plan(other, staged(5, **{key: 3}), keys=keys)

    assert found.segment is not None
    assert found.segment.mark == Mark(4)
    assert found.stop is not None
    assert found.stop.cut.position == "binlog.000001:5000"
    assert f"3 values in the key column {key} are zero dates" in found.stop.explanation
    assert plan(other, keys=keys).stop is None


def test_a_key_that_another_value_stood_for_before_a_truncation_does_not_count() -> None:
    entry = table([(10, 14), (20, 24)])
    first, last = entry.parts
    parts = replace(first, replaced={"id": 1}), last
    truncated = statement(17, TruncateTable(ORDERS))

    found = plan(manifest(4, replace(entry, parts=parts), statements=[truncated]))

    assert found.stop is None
    assert found.changes == {"insert": 2}
