"""Table plans: what is read, by which key, in which columns; and what is refused before that."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    RenameField,
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
from airflow_provider_binlog.spark.mark import Mark
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, plan_table
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.schema import Schema, TableName
    from airflow_provider_binlog.spark.plan.segment import Segment

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
    (found,) = plan(*manifests, **options).segments
    return found


def lake(of: Schema, *, ended: str = "") -> TargetState:
    """Return a lake table with the rows of `ORDERS` in a schema."""
    names = {each.id: each.name for each in of.fields}
    return TargetState(
        columns={each.name: "int" for each in of.fields},
        column_ids={each.name: f"c{each.id}" for each in of.fields},
        properties={
            TABLE_ID: ORDERS,
            KEY: json.dumps([names[each] for each in of.key]),
            FIELDS: json.dumps({str(each): (f"c{each}", 0) for each in names}),
            ENDED: ended,
        },
        applied=Mark(3),
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
    ("later", "says"),
    [
        (schema("id", "n", key=("id", "n"), id_=2), "primary key changed"),
        (schema("id", column(2, "n", "string"), id_=2), "type changed.*before=int, now=varchar"),
        (
            schema("id", "n", column(3, "m", initial=UnknownDefault("it is NOW()")), id_=2),
            r"has a value in rows.*column=m.*not known: it is NOW\(\)",
        ),
    ],
)
def test_rows_that_no_collapse_can_fold_are_refused(later: Schema, says: str) -> None:
    with pytest.raises(MergeError, match=says):
        segment(altered(later))


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

    assert plan(quiet(wider, added), state=lake(ID_N)).segments == ()


def test_the_same_rows_may_get_another_key() -> None:
    found = segment(
        quiet(schema("id", "n", key=("n",), id_=2), statement(15, SetKey(ORDERS, (2,)))),
        state=lake(ID_N),
    )

    assert found.key == ("n",)


def test_a_lake_table_with_another_key_is_refused() -> None:
    with pytest.raises(MergeError, match=r"another key.*found=n, wanted=id"):
        plan(manifest(4, table([(10, 20)])), state=lake(schema("id", "n", key=("n",))))


def test_a_truncate_alone_is_a_segment() -> None:
    truncated = statement(15, TruncateTable(ORDERS))

    assert segment(quiet(ID_N, truncated), state=lake(ID_N)).starts_empty
    assert plan(quiet(ID_N, truncated)).segments == ()


def test_a_drop_alone_is_noted_once() -> None:
    dropped = manifest(4, table(dropped=True), statements=[statement(15, DropTable(ORDERS, NAME))])

    found = plan(dropped, state=lake(ID_N))
    assert found.ended
    assert len(found.segments) == 1
    assert plan(dropped, state=lake(ID_N, ended="3")).segments == ()


# ------------------------------------------------------------ rewritten rows

WHOLE = RewriteRows(ORDERS, "dropped a partition")
VALUES = RewriteRows(ORDERS, "shortened the values of n", 2)


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_rewritten_rows_are_refused(action: RewriteRows) -> None:
    rewritten = statement(15, action, text="ALTER TABLE orders ... p0")

    with pytest.raises(MergeError, match=rf"the statement {action.reason}.*:15.*orders \.\.\. p0"):
        plan(manifest(4, table([(10, 14)]), statements=[rewritten]))
    with pytest.raises(MergeError, match=action.reason):
        plan(quiet(ID_N, rewritten), state=lake(ID_N))


@pytest.mark.parametrize("action", [WHOLE, VALUES])
def test_a_rewrite_of_a_table_without_rows_passes(action: RewriteRows) -> None:
    created, rewritten = statement(5, CreateTable(ORDERS, NAME)), statement(15, action)
    found = manifest(4, table([(20, 30)], created=4), statements=[created, rewritten])

    assert segment(found).rows == 2


def test_a_rewrite_may_bring_rows_into_a_table_that_is_not_complete() -> None:
    truncated, rewritten = statement(5, TruncateTable(ORDERS)), statement(15, WHOLE)

    with pytest.raises(MergeError, match="dropped a partition"):
        plan(quiet(ID_N, truncated, rewritten), state=lake(ID_N))


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

    with pytest.raises(MergeError, match="the statement rewrote"):
        plan(quiet(wider, added, statement(25, rewritten)), state=lake(ID_N))


def test_a_changelog_keeps_values_as_they_were_logged() -> None:
    no_key = schema("id", "n", key=())

    assert segment(
        manifest(4, table([(10, 14)], no_key), statements=[statement(15, VALUES)])
    ).is_changelog


def test_a_dropped_table_that_cannot_be_followed_is_left_as_it_is() -> None:
    steps = statement(15, WHOLE), statement(25, DropTable(ORDERS, NAME))
    found = plan(manifest(4, table([(10, 14)], dropped=True), statements=steps), state=lake(ID_N))

    assert (found.table, found.ended, found.changes) == (None, True, {})
