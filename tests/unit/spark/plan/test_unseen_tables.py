"""DDL on a table of which no row was ever logged: manifests have the columns that it names only."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.manifest import Part, Statement, TableChanges
from airflow_provider_binlog.schema import TableState
from airflow_provider_binlog.spark.plan.planner import TablePlan, plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.reload.plan import Reload, plan_reload
from airflow_provider_binlog.spark.target.properties import announce_fills
from airflow_provider_binlog.spark.target.state import (
    FIELDS,
    KEY,
    SNAPSHOT,
    TABLE_ID,
    UNSEEN,
    Contents,
    Mark,
    TargetState,
)
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.schema_history.log import Log, T
from tests.unit.spark.plan.snapshots import snapshot
from tests.unit.spark.plans import manifest, schema
from tests.unit.spark.staged_changes import LOG

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest

_ID_V = {"id": "c1", "v": "c2"}
_ARROW = {"int": "int32", "bigint": "int64", "varchar(9)": "string"}


@dataclass
class Capture:
    """What capture says of `shop.t`, range by range."""

    sequence: int = 3
    known: TableState | None = None
    manifests: list[Manifest] = field(default_factory=list)

    def run(self, *statements: str, rows: tuple[str, ...] = ()) -> Manifest:
        """Return the next manifest; `rows` are the columns of a row that follows."""
        log = Log(known={} if self.known is None else {self.known.name: self.known})
        self.sequence += 1
        done = []
        for number, text in enumerate(statements, 1):
            actions = tuple(log.run(text))
            offset = 1000 * self.sequence + 10 * number
            done.append(Statement(LOG, offset, 10 * number, "ALTER TABLE", text, actions))
        if rows:
            log.rows(T, *rows)
        entries = []
        for touched in log.tables.touched.values():
            if not touched.dropped:
                self.known = touched.state
            entries.append(_entry(touched.state, dropped=touched.dropped, has_rows=bool(rows)))
        made = manifest(self.sequence, *entries, statements=done)
        self.manifests.append(made)
        return made


def _entry(state: TableState, *, dropped: bool, has_rows: bool) -> TableChanges:
    found = state.schema
    if found is not None:
        typed = (
            replace(each, arrow_type=each.arrow_type and _ARROW[str(each.mysql_type)])
            for each in found.fields
        )
        found = replace(found, fields=tuple(typed))
    schemas = () if found is None else (found,)
    parts = tuple(Part("a", each.id, 2, 100, "", 900, 901, 0, 0, {"insert": 2}) for each in schemas)
    return TableChanges(
        id=state.id,
        database=state.name[0],
        table=state.name[1],
        dropped=dropped,
        created=state.created,
        schemas=schemas,
        current=None if found is None else found.id,
        last_field_id=state.last_field_id,
        logged=state.logged,
        images=tuple(tuple(each.id for each in of.fields) for of in schemas),
        parts=parts if has_rows else (),
    )


def lake(*names: str, key: str = "id", is_empty: bool = False) -> TargetState:
    """Return a lake table that was loaded from a snapshot, with columns of integers."""
    return TargetState(
        columns=dict.fromkeys(names, "int"),
        column_ids={name: f"c{n}" for n, name in enumerate(names, 1)},
        properties={TABLE_ID: UNSEEN, KEY: json.dumps(key.split()), FIELDS: "{}"},
        contents=Contents(Mark(3), UNSEEN, "a snapshot"),
        files=0 if is_empty else 1,
        bytes=0,
        is_empty=is_empty,
        snapshot=1,
    )


def plan(state: TargetState, *manifests: Manifest) -> TablePlan:
    log = TableLog(manifests)
    found = plan_table(
        T, log, first=state.applied.sequence + 1, state=state, options=TableOptions()
    )
    assert found is not None
    return found


def merged(state: TargetState, *manifests: Manifest) -> TargetState:
    """Return the lake table after what the plan commits."""
    found = plan(state, *manifests)
    segment = found.segment
    assert segment is not None
    assert found.stop is None
    ids = {name: state.column_ids[old] for name, old in segment.evolution.columns.items()}
    ids |= {name: f"c{segment.mark}-{name}" for name in segment.evolution.added}
    assert {*segment.evolution.dropped} == {*state.columns} - {*segment.evolution.columns.values()}
    return replace(
        state,
        columns=segment.columns,
        column_ids=ids,
        properties={
            TABLE_ID: str(found.table),
            KEY: json.dumps(segment.key),
            FIELDS: json.dumps(
                {str(id_): [ids[n], "0"] for id_, n in segment.evolution.fields.items()}
            ),
        },
        contents=Contents(segment.mark, found.table),
    )


@pytest.mark.parametrize("is_empty", [False, True])
@pytest.mark.parametrize(
    ("statements", "columns"),
    [
        (["ALTER TABLE t ADD COLUMN c INT DEFAULT 5"], {"id": "c1", "v": "c2", "c": "c4-c"}),
        (["ALTER TABLE t ADD COLUMN c INT AFTER id"], {"id": "c1", "v": "c2", "c": "c4-c"}),
        (["ALTER TABLE t DROP COLUMN v"], {"id": "c1"}),
        (["ALTER TABLE t RENAME COLUMN v TO w"], {"id": "c1", "w": "c2"}),
        (["ALTER TABLE t RENAME COLUMN v TO w, ADD v INT"], {"id": "c1", "w": "c2", "v": "c4-v"}),
        (["ALTER TABLE t RENAME COLUMN v TO id, RENAME COLUMN id TO v"], {"v": "c1", "id": "c2"}),
        (["ALTER TABLE t RENAME COLUMN id TO n"], {"n": "c1", "v": "c2"}),
        (["ALTER TABLE t DROP v", "TRUNCATE TABLE t"], {"id": "c1"}),
        # Statements name columns in any lettercase.
        (["ALTER TABLE t DROP COLUMN V"], {"id": "c1"}),
        (["ALTER TABLE t RENAME COLUMN V TO w"], {"id": "c1", "w": "c2"}),
        (["ALTER TABLE t ADD COLUMN IF NOT EXISTS c INT DEFAULT 5"], {**_ID_V, "c": "c4-c"}),
        (
            ["ALTER TABLE t RENAME COLUMN V TO w", "ALTER TABLE t ADD COLUMN IF NOT EXISTS v INT"],
            {"id": "c1", "w": "c2", "v": "c4-v"},
        ),
    ],
)
def test_columns_that_no_statement_names_stay(
    statements: list[str], columns: dict[str, str], *, is_empty: bool
) -> None:
    found = merged(lake("id", "v", is_empty=is_empty), Capture().run(*statements))

    assert found.column_ids == columns
    assert found.column_ids[found.key[0]] == "c1"


def test_a_column_that_may_have_been_there_is_that_of_the_lake_table() -> None:
    capture = Capture()
    # Of another type even.
    added = capture.run("ALTER TABLE t ADD COLUMN IF NOT EXISTS v VARCHAR(9) DEFAULT 'a'")
    found = plan(lake("id", "v"), added)
    assert (found.segment, found.stop) == (None, None)

    renamed = capture.run("ALTER TABLE t RENAME COLUMN v TO w")
    assert merged(lake("id", "v"), added, renamed).column_ids == {"id": "c1", "w": "c2"}


def test_columns_are_followed_from_range_to_range() -> None:
    capture, state = Capture(), lake("id", "v", "w")
    for statement, columns in [
        ("ALTER TABLE t ADD c INT DEFAULT 5", {"id": "c1", "v": "c2", "w": "c3", "c": "c4-c"}),
        ("ALTER TABLE t RENAME COLUMN v TO x", {"id": "c1", "x": "c2", "w": "c3", "c": "c4-c"}),
        (
            "ALTER TABLE t RENAME COLUMN c TO v, DROP w, RENAME COLUMN id TO k",
            {"k": "c1", "x": "c2", "v": "c4-c"},
        ),
    ]:
        state = merged(state, capture.run(statement))
        assert state.column_ids == columns
    # The first row shows all columns: they are those that the lake table has.
    now = merged(state, capture.run(rows=("k int", "x int", "v int")))
    assert now.column_ids == state.column_ids
    assert len(now.claims) == 3
    # The same in one merge, from before the first statement on.
    assert merged(lake("id", "v", "w"), *capture.manifests).column_ids == {
        "k": "c1",
        "x": "c2",
        "v": "c7-v",
    }


@pytest.mark.parametrize(
    ("statement", "columns"),
    [
        # The names were exchanged.
        (
            "ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN w TO v",
            {"id": "c1", "w": "c2", "v": "c3"},
        ),
        ("ALTER TABLE t RENAME COLUMN v TO x", {"id": "c1", "x": "c2", "w": "c3"}),
        ("ALTER TABLE t DROP COLUMN v", {"id": "c1", "w": "c3"}),
    ],
)
def test_a_killed_merge_leaves_columns_that_the_next_one_knows_by_their_ids(
    statement: str, columns: dict[str, str]
) -> None:
    before, altered = lake("id", "v", "w"), Capture().run(statement)
    killed = replace(
        before,
        columns=dict.fromkeys(columns, "int"),
        column_ids=columns,
        properties=before.properties | _claims(before, plan(before, altered)),
    )
    assert killed.table == UNSEEN
    found = plan(killed, altered).segment
    assert found is None or not found.evolution.changes_columns


def test_columns_that_a_killed_merge_added_are_filled_by_the_next_one() -> None:
    before = lake("id", "v")
    altered = Capture().run(
        "ALTER TABLE t ADD COLUMN c INT DEFAULT 5", rows=("id int", "v int", "c int")
    )
    first = plan(before, altered)
    assert first.segment is not None
    claimed = replace(before, properties=before.properties | _claims(before, first))
    added = {id_ for id_, name in first.segment.evolution.fields.items() if name == "c"}
    killed = replace(
        claimed,
        columns=claimed.columns | {"c": "int"},
        column_ids=claimed.column_ids | {"c": "c3"},
        properties=claimed.properties | announce_fills(claimed, added, Mark(4)),
    )
    found = plan(killed, altered).segment
    assert found is not None
    assert found.evolution.filled == first.segment.evolution.filled
    assert not found.evolution.added


def test_columns_that_a_killed_merge_dropped_are_not_filled_with_a_default() -> None:
    capture, before = Capture(), lake("id", "v")
    altered = capture.run("ALTER TABLE t ADD COLUMN c INT", rows=("id int", "v int", "c int"))
    killed = replace(
        before,
        columns={"id": "int"},
        column_ids={"id": "c1"},
        properties=before.properties | _claims(before, plan(before, altered)),
    )
    found = plan(killed, altered)
    assert found.segment is None
    assert found.stop is not None
    assert "lost the values of column v" in found.stop.reason
    # The property of another load says nothing.
    restored = replace(killed, contents=Contents(Mark(3), UNSEEN, "an earlier snapshot"))
    assert not restored.claims


def _claims(state: TargetState, found: TablePlan) -> dict[str, str]:
    assert found.claims is not None
    return {FIELDS: found.claims, SNAPSHOT: state.loaded}


def test_a_stop_in_the_range_leaves_the_columns_from_before() -> None:
    capture = Capture()
    first = capture.run("ALTER TABLE t ADD c INT DEFAULT 5")
    second = capture.run("ALTER TABLE t RENAME COLUMN v TO w", "ALTER TABLE t MODIFY w BIGINT")
    found = plan(lake("id", "v"), first, second)

    assert found.stop is not None
    assert found.segment is not None
    assert found.segment.mark == found.stop.mark == Mark(4, 2)
    assert list(found.segment.columns) == ["id", "w", "c"]


def test_ddl_after_a_snapshot_is_followed_over_its_rows() -> None:
    capture = Capture(sequence=1)
    capture.run()
    capture.run("ALTER TABLE t ADD c INT DEFAULT 5", "ALTER TABLE t DROP n")
    for of in (snapshot(), replace(snapshot(), parts=())):
        loaded = replace(of, table="t")
        found = plan_reload(Reload(loaded, 2), TableLog(capture.manifests), None, TableOptions())

        assert isinstance(found, TablePlan)
        assert found.segment is not None
        assert (found.stop, found.segment.columns) == (None, {"id": "int", "c": "int"})
        assert found.segment.key == ("id",)
        assert [*found.segment.evolution.fields.values()] == ["c"]
    capture.run(rows=("id int", "c int"))
    found = plan_reload(
        Reload(replace(snapshot(), table="t"), 2),
        TableLog(capture.manifests),
        None,
        TableOptions(),
    )
    assert isinstance(found, TablePlan)
    assert found.segment is not None
    rows, _ = found.segment.reads
    assert rows.names == {"id": "id"}
    assert rows.initial == {"c": 5}


@pytest.mark.parametrize(
    "statement",
    ["ALTER TABLE t DROP COLUMN id, ADD c INT DEFAULT 5", "ALTER TABLE t DROP COLUMN id"],
)
def test_a_table_that_loses_its_key_is_a_stop(statement: str) -> None:
    found = plan(lake("id", "v"), Capture().run(statement))

    assert found.stop is not None
    assert "the column id of the lake table's key was dropped" in found.stop.explanation
    assert found.segment is None
    of = replace(snapshot(schema("id", "v")), table="t", parts=())
    capture = Capture(sequence=1)
    capture.run()
    capture.run(statement)
    reload = plan_reload(Reload(of, 2), TableLog(capture.manifests), None, TableOptions())
    assert isinstance(reload, TablePlan)
    assert reload.segment is not None
    assert (reload.segment.mark, reload.stop is None) == (Mark(2, 1), False)
