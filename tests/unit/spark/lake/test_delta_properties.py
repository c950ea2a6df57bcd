"""Delta tables: what is set on them, and on which."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from airflow_provider_binlog.spark.lake.delta import DeltaLake
from airflow_provider_binlog.spark.lake.table_format import TargetState
from airflow_provider_binlog.spark.mark import NOTHING, Contents
from airflow_provider_binlog.spark.plan.evolution import Evolution

LAKE = DeltaLake("shop", "s3a://lake", None, {"delta.enableChangeDataFeed": "true"})


class Statements(list[str]):
    """What a session ran."""

    @property
    def session(self) -> Any:
        return SimpleNamespace(sql=self.append)


def test_a_table_with_column_mapping_of_either_mode_keeps_it() -> None:
    ran, mapped = Statements(), {"delta.columnMapping.mode": "id"}
    state = TargetState({"id": "int", "n": "int"}, {}, mapped, Contents(NOTHING), 0, 0, True, 0)

    LAKE.evolve(ran.session, "t", state, Evolution(dropped=("n",)))

    assert ran == ["ALTER TABLE t DROP COLUMNS (`n`)"]


def test_only_a_changelog_has_no_change_data_feed() -> None:
    ran = Statements()
    LAKE.create(ran.session, "t", {"id": "int"}, {})
    LAKE.create(ran.session, "log", {"id": "int", "_change_type": "string"}, {})

    table, log = ran

    assert "'delta.enableChangeDataFeed' = 'true'" in table
    assert "'delta.enableChangeDataFeed' = 'false'" in log
