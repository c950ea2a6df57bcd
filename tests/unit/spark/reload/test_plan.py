"""The plan of a reload: what is replayed over a snapshot, and what is refused."""

from __future__ import annotations

from dataclasses import replace
from itertools import permutations
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    ExcludedField,
    QuarantineTable,
    RenameField,
    RenameTable,
    TruncateTable,
)
from airflow_provider_binlog.spark.plan.fold import StartWithin
from airflow_provider_binlog.spark.plan.lifecycle import identify
from airflow_provider_binlog.spark.plan.planner import TablePlan
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.reload.plan import (
    OVERTAKEN,
    Reload,
    is_overtaken,
    plan_reload,
)
from airflow_provider_binlog.spark.target.state import FIELDS, KEY, TABLE_ID, UNSEEN, Contents, Mark
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.plan.snapshots import LOW, snapshot
from tests.unit.spark.plan.table_plans import ID_N, lake
from tests.unit.spark.plans import NAME, ORDERS, column, manifest, schema, statement, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.schema import Action, TableName

OTHER: TableName = ("shop", "other")
NEW = "00000000000000bb"


def at(offset: int, *actions: Action) -> Statement:
    """Return a statement whose row is its offset."""
    return replace(statement(offset, *actions), offset=offset)


def plan(*manifests: Manifest, of: Any = None, state: Any = None) -> TablePlan | str:
    log = TableLog(manifests)
    reload = Reload(of or snapshot(), 2)
    return plan_reload(reload, log, state, TableOptions())


def planned(*manifests: Manifest, **options: Any) -> TablePlan:
    found = plan(*manifests, **options)
    assert isinstance(found, TablePlan)
    assert found.segment is not None
    return found


def refused(*manifests: Manifest, **options: Any) -> str:
    found = plan(*manifests, **options)
    assert isinstance(found, str)
    return found


def test_changes_are_replayed_from_the_manifest_on_that_low_is_in() -> None:
    found = planned(
        manifest(1, table([(1, 2)])),
        manifest(2, table([(2010, 2020)])),
        manifest(3),
        state=lake(ID_N),
    )

    assert found.segment is not None
    assert [each.first_row for each in found.segment.parts] == [0, 2010]
    assert (found.segment.mark, found.segment.reloads) == (Mark(3), True)
    assert found.segment.evolution.fields == {1: "id", 2: "n"}
    assert (found.table, found.segment.start) == (ORDERS, None)


def test_a_table_that_is_not_mentioned_has_no_ids_yet() -> None:
    found = planned(manifest(2), manifest(3))

    assert found.segment is not None
    assert (found.table, found.segment.evolution.fields) == (UNSEEN, {})
    assert found.segment.columns == {"id": "int", "n": "int"}


def test_rows_from_before_a_statement_that_the_snapshot_shows_are_left_out() -> None:
    now = schema("id", "n", column(3, "more"), id_=2)
    found = planned(
        manifest(
            2,
            table([(2010, 2020), (2060, 2070)], ID_N, now),
            statements=[at(2050, AddField(ORDERS, 3, "more"))],
        ),
        of=snapshot(schema("id", "n", "more")),
    )

    assert found.segment is not None
    assert [each.first_row for each in found.segment.parts] == [0, 2060]
    assert found.segment.evolution.fields == {1: "id", 2: "n", 3: "more"}


def test_fields_are_those_that_the_columns_had_at_the_snapshot() -> None:
    now = schema("id", column(2, "number"), column(4, "added"), id_=2)
    found = planned(
        manifest(
            3,
            table([(3500, 3600)], now),
            statements=[
                at(3100, RenameField(ORDERS, 2, "n", "number")),
                at(3200, DropField(ORDERS, 3, "more"), AddField(ORDERS, 4, "added")),
            ],
        ),
        of=snapshot(schema("id", "more", "n")),
    )

    assert found.segment is not None
    assert found.segment.evolution.fields == {1: "id", 2: "number", 4: "added"}
    rows = found.segment.reads[0]
    assert rows.names == {"id": "id", "number": "n"}


def test_statements_between_low_and_high_are_refused_by_name() -> None:
    reason = refused(
        manifest(2, table([(2010, 2020)]), statements=[at(2300, DropField(ORDERS, 3, "more"))])
    )
    assert "DDL statement at binlog.000001:2300" in reason
    assert "take the snapshot again" in reason
    assert refused(manifest(2, statements=[at(2300, CreateTable(NEW, NAME))]))
    assert refused(manifest(2, statements=[at(2300, RenameTable(NEW, NAME, OTHER))]))
    other = manifest(2, statements=[at(2300, TruncateTable(NEW))])
    assert isinstance(plan(other), TablePlan)


def test_a_table_that_was_quarantined_in_the_first_range_is_refused() -> None:
    def quarantined(sequence: int, offset: int) -> Manifest:
        statements = [at(offset, QuarantineTable(ORDERS, "a type"))]
        return manifest(sequence, table(), statements=statements)

    for offset in (2050, 2300, 2600):
        reason = refused(quarantined(2, offset))
        assert f"quarantined at binlog.000001:{offset} (a type)" in reason
        assert "staged from binlog.000001:2000 to binlog.000001:3000" in reason
    later = plan(manifest(2), quarantined(3, 3100))
    assert isinstance(later, TablePlan)
    assert later.stop is not None
    assert later.segment is not None
    assert later.segment.mark == Mark(2)


def test_a_stop_before_high_refuses_the_snapshot() -> None:
    keyed = snapshot()
    part = replace(keyed.parts[0], replaced={"id": 2})
    reason = refused(manifest(2), manifest(3), of=replace(keyed, parts=(part,)), state=lake(ID_N))
    assert "id" in reason
    assert "take the snapshot again" in reason
    other = schema("id", column(2, "n", "string"), id_=2)
    assert "n was int" in refused(manifest(2, table([(2010, 2020)], other)))
    later = plan(manifest(2), manifest(3, table([(3010, 3020)], other)))
    assert isinstance(later, TablePlan)
    assert later.stop is not None
    assert later.segment is not None
    assert later.segment.mark == Mark(2)


def test_a_table_that_was_replaced_after_the_snapshot_needs_none() -> None:
    for actions in (
        [DropTable(ORDERS, NAME), CreateTable(NEW, NAME)],
        [RenameTable(ORDERS, NAME, OTHER)],
        [CreateTable(NEW, NAME)],
    ):
        replaced = manifest(2, statements=[at(2600, *actions)])
        assert is_overtaken(Reload(snapshot(), 2), TableLog([replaced]))
        assert plan(replaced) == OVERTAKEN
    back = [RenameTable(ORDERS, NAME, OTHER), RenameTable(ORDERS, OTHER, NAME)]
    assert not is_overtaken(
        Reload(snapshot(), 2), TableLog([manifest(2, statements=[at(2600, *back)])])
    )
    # What happens while the table is read refuses the snapshot.
    within = manifest(2, statements=[at(2300, DropTable(ORDERS, NAME))])
    assert not is_overtaken(Reload(snapshot(), 2), TableLog([within]))


def test_a_table_that_was_created_again_before_the_snapshot_is_the_new_one() -> None:
    found = planned(
        manifest(
            2,
            table([(2005, 2010)], dropped=True),
            table([(2060, 2070)], id_=NEW, created=2),
            statements=[at(2050, DropTable(ORDERS, NAME), CreateTable(NEW, NAME))],
        )
    )

    assert found.table == NEW
    assert found.segment is not None
    assert [each.first_row for each in found.segment.parts] == [0, 2060]


def test_a_table_without_a_key_needs_an_exact_snapshot() -> None:
    keyless = schema("id", "n", key=())
    rows = manifest(2, table([(2010, 2020)], keyless))

    assert "not read at one position" in refused(rows, of=snapshot(keyless))
    exact = snapshot(keyless, is_exact=True)
    found = planned(rows, of=exact)
    assert found.segment is not None
    assert found.segment.start == StartWithin(2, 1, 2100)
    keyed = lake(ID_N)
    assert "the lake table has one" in refused(rows, of=exact, state=keyed)
    # Another snapshot would not help.
    assert "the lake table has one" in refused(rows, of=snapshot(keyless), state=keyed)
    changelog = replace(keyed, properties=keyed.properties | {KEY: "[]"})
    assert isinstance(plan(rows, of=exact, state=changelog), TablePlan)


def test_an_adopted_table_keeps_its_rows_and_gets_those_of_the_first_manifest() -> None:
    state = replace(lake(ID_N), contents=Contents(Mark(0)), properties={})
    of = snapshot(parts=(), low=LOW, high=LOW, is_exact=True, adopts=True)
    rows = manifest(2, table([(2010, 2090), (2110, 2120)]))
    later = manifest(3, table([(3010, 3020)]))

    found = planned(rows, later, of=of, state=state)
    assert found.segment is not None
    assert not found.segment.reloads
    assert not found.segment.starts_empty
    assert found.segment.start == StartWithin(2, 1, 2100)
    assert (found.segment.mark, found.more) == (Mark(2), True)

    more = table([(2120, 2130)])
    added = manifest(2, more, statements=[at(2110, AddField(ORDERS, 3, "c"))])
    assert "soon after the position" in refused(added, of=of, state=state)
    other = replace(state, columns={"id": "int"}, column_ids={"id": "1"})
    assert "its columns are not" in refused(rows, of=of, state=other)


def test_a_lake_table_that_the_log_had_not_mentioned_gets_its_ids() -> None:
    columns = schema(column(1, "n"), column(2, "id"), key=("n",), id_=2)
    exchanged = at(4050, RenameField(ORDERS, 1, "id", "n"), RenameField(ORDERS, 2, "n", "id"))
    log = TableLog(
        [manifest(4, replace(table([(4060, 4070)], columns), logged=2), statements=[exchanged])]
    )
    state = lake(ID_N)
    unseen = replace(
        state,
        properties=state.properties | {TABLE_ID: UNSEEN, FIELDS: "{}"},
        contents=Contents(Mark(3), UNSEEN, "a snapshot"),
    )

    assert unseen.fields == {}
    found = identify(unseen, NAME, log)
    assert found is not None
    assert (found.table, found.fields) == (ORDERS, {1: "id", 2: "n"})
    assert identify(unseen, NAME, TableLog([manifest(4)])) == unseen
    assert identify(None, NAME, log) is None
    created = TableLog([manifest(4, statements=[at(4050, CreateTable(NEW, NAME))])])
    assert identify(unseen, NAME, created) == unseen


def test_rows_are_not_replaced_by_those_of_a_condition() -> None:
    some, there = replace(snapshot(), where="n > 5"), lake(ID_N)

    assert "without where='n > 5'" in refused(
        manifest(2), manifest(3), of=some, state=replace(there, is_empty=False)
    )
    for state in (None, replace(there, is_empty=True)):
        assert planned(manifest(2), manifest(3), of=some, state=state).segment is not None


def test_a_snapshot_with_other_columns_than_the_changes_after_it_is_refused() -> None:
    plain = schema("id", "n")
    id_, n = plain.fields
    protected = replace(n, origin=("shop", "orders", "n"))
    hashed = replace(plain, fields=(id_, replace(protected, hashed="a")))
    without = replace(plain, fields=(id_,), excluded=(ExcludedField(1, protected),))

    for read, logged in permutations((plain, hashed, without), 2):
        of = snapshot(read)
        reason = refused(manifest(2, table([(2010, 2020)], logged)), manifest(3), of=of)
        assert "exclude or hash other columns (n)" in reason
        # What is not replayed does not matter, nor what was only noted.
        planned(manifest(2), manifest(3), of=of)
        planned(manifest(2, table([], logged)), manifest(3, table([(3010, 3020)], read)), of=of)
