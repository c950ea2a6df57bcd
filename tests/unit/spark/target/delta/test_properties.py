"""Delta tables: what is set on them, and on which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.schema import AddField, AlterField, DropField, RenameField
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.target.delta.table import (
    DeltaLake,
    find_barrier,
    needed_features,
    supported_features,
)
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, Mark, TargetState
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Action

LAKE = DeltaLake("shop", "s3a://lake", TableRules(), {"delta.enableChangeDataFeed": "true"})


class Statements(list[str]):
    """What a session ran."""

    @property
    def session(self) -> Any:
        conf = SimpleNamespace(set=lambda *_: None, unset=lambda *_: None, get=lambda *_: None)
        return SimpleNamespace(sql=self.run, conf=conf)

    def run(self, statement: str) -> SimpleNamespace:
        self.append(statement)
        return SimpleNamespace(collect=list)


def test_a_table_with_column_mapping_of_either_mode_keeps_it() -> None:
    ran, mapped = Statements(), {"delta.columnMapping.mode": "id"}
    state = TargetState({"id": "int", "n": "int"}, {}, mapped, Contents(NOTHING), 0, 0, True, 0)

    LAKE.evolve(ran.session, "t", state, Evolution(dropped=("n",)))

    assert ran == ["ALTER TABLE t DROP COLUMNS (`n`)"]


def test_only_a_changelog_has_no_change_data_feed() -> None:
    ran = Statements()
    for columns in ({"id": "int"}, {"id": "int", "_change_type": "string"}):
        owner = SimpleNamespace(source="shop", name=("shop", "t"))
        change: Any = SimpleNamespace(
            table="t",
            columns=columns,
            owner=owner,
            mark=Mark(1),
            contents=Contents(Mark(1)),
            base=None,
            stop="",
        )
        LAKE.create_as(ran.session, change, {})

    table, feed, log = ran

    # Delta refuses to create a table with rows, column mapping and the feed.
    assert "'delta.enableChangeDataFeed' = 'false'" in table
    assert feed == "ALTER TABLE t SET TBLPROPERTIES ('delta.enableChangeDataFeed' = 'true')"
    assert "'delta.enableChangeDataFeed' = 'false'" in log


@pytest.mark.parametrize(
    ("evolution", "needed"),
    [
        (Evolution(dropped=("n",)), "column mapping"),
        (Evolution(renamed={"n": "m"}), "column mapping"),
        (Evolution(added={"a note": "string"}), "column mapping"),
        (Evolution(added={"note": "string"}), ""),
        (Evolution(widened={"n": "bigint"}), "type widening"),
        (Evolution(added={"at": "timestamp_ntz"}), "timestamps without a time zone"),
        (
            Evolution(dropped=("n",), widened={"id": "bigint"}),
            "column mapping and type widening",
        ),
    ],
)
def test_features_that_a_table_lacks_are_named(evolution: Evolution, needed: str) -> None:
    columns = {"id": "int", "n": "int"}

    barrier = find_barrier(evolution, columns=columns, properties={})

    assert ("" if barrier is None else barrier.reason[26:].partition(" for its ")[0]) == needed
    has = {"delta.columnMapping.mode": "id", "delta.enableTypeWidening": "true"}
    columns["since"] = "timestamp_ntz"
    assert needed_features(evolution, columns=columns, properties=has) == {}


def test_a_feature_that_someone_added_is_not_needed() -> None:
    evolution, columns = Evolution(added={"at": "timestamp_ntz"}), {"id": "int"}
    added = supported_features({"writerFeatures": ["appendOnly", "timestampNtz"]})
    others = supported_features({"writerFeatures": ["appendOnly"]})

    assert needed_features(evolution, columns=columns, properties=added) == {}
    assert needed_features(evolution, columns=columns, properties=others)
    assert supported_features({"minReaderVersion": 1, "minWriterVersion": 2}) == {}


def test_actions_need_features() -> None:
    mapped = (DropField("t", 1, "n"), RenameField("t", 1, "n", "m"), AddField("t", 2, "a b"))

    def needs(evolution: Evolution, action: Action) -> bool:
        columns = {"id": "int", "n": "int"}
        barrier = find_barrier(evolution, columns=columns, properties={})
        return barrier is not None and barrier.concerns(action)

    drop, widen = Evolution(dropped=("n",)), Evolution(widened={"n": "bigint"})
    at = Evolution(added={"at": "timestamp_ntz"})
    alter = AlterField("t", 1, "n", "int", "bigint")
    assert all(needs(drop, each) for each in mapped)
    assert not needs(drop, AddField("t", 2, "b"))
    assert not needs(drop, alter)
    assert needs(widen, alter)
    assert needs(at, AddField("t", 2, "b"))
