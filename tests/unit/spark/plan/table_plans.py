"""Plans of one table, as its manifests and its lake table make them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.spark.plan.planner import TablePlan, plan_table
from airflow_provider_binlog.spark.plan.table_log import TableLog
from airflow_provider_binlog.spark.target.state import (
    ENDED,
    FIELDS,
    KEY,
    TABLE_ID,
    Contents,
    Mark,
    TargetState,
)
from airflow_provider_binlog.table_options import TableOptions
from tests.unit.spark.plans import NAME, ORDERS, manifest, schema, table

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.spark.plan.segment import Segment
    from airflow_provider_binlog.spark.plan.table_log import Stop

ID_N = schema("id", "n")
NEW = "00000000000000bb"


def plan(
    *manifests: Manifest,
    key: tuple[str, ...] | None = None,
    state: TargetState | None = None,
    **others: Any,
) -> TablePlan:
    log = TableLog(manifests)
    options = TableOptions(key=key, **others)
    found = plan_table(NAME, log, first=log.first, state=state, options=options)
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


def quiet(to: Schema, *statements: Statement) -> Manifest:
    """Return a manifest in which statements gave the table a schema, and no rows came."""
    return manifest(4, table((), to), statements=statements)
