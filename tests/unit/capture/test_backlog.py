"""Any log in any sub-ranges gives the manifest that one extract of the whole gives."""

from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.capture.backlog.joining import commit_backlog
from airflow_provider_binlog.capture.backlog.sub_ranges import (
    BacklogPlan,
    plan_backlog,
    stage_sub_range,
)
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema_history.statements import LoggedChange
from airflow_provider_binlog.sql.ddl import (
    Altered,
    Created,
    Dropped,
    Renamed,
    TableChange,
    Truncated,
    read_ddl,
)
from airflow_provider_binlog.sql.lexer import Session
from airflow_provider_binlog.stored_json import from_json, to_text
from tests.support.ddl_statements import ALL
from tests.support.requests import a_request
from tests.unit.capture.prepared_logs import BEGIN, OPERATIONS, play, rows_of
from tests.unit.capture.staging import capture, end_of, file_source, new_store

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest


def without_parts(manifest: Manifest) -> Manifest:
    tables = tuple(replace(each, parts=()) for each in manifest.tables)
    return replace(manifest, tables=tables, created_at="")


@settings(max_examples=80)
@given(
    st.sampled_from(list(Flavor)),
    OPERATIONS,
    st.sampled_from([1, 9000, 1 << 24]),
    st.sampled_from([1, 2000]),
    st.data(),
)
def test_any_log_in_any_sub_ranges_is_the_whole(
    flavor: Flavor, operations: Any, held: int, target_bytes: int, data: st.DataObject
) -> None:
    files, expected, _ = play(operations, flavor, data)
    source, stop, limits = file_source(files), end_of(files), Limits(prepared_bytes_max=held)
    stores = [new_store(), new_store()]
    whole = capture(source, stop, flavor=flavor, limits=limits, store=stores[0])

    request = a_request(BEGIN, stop, flavor=flavor, limits=limits)
    plan = plan_backlog(LogRange(request), source, target_bytes=target_bytes)
    plan = BacklogPlan.decode(plan.encode())
    for number in data.draw(st.permutations(range(len(plan.sub_ranges)))):
        stage_sub_range(plan, number, file_source(files, block_bytes=300), stores[1])
    joined = commit_backlog(plan, stores[1], created_by="a test")

    assert [row["id"] for row in rows_of(stores[1], joined)] == expected
    assert rows_of(stores[1], joined) == rows_of(stores[0], whole)
    assert without_parts(joined) == without_parts(whole)
    assert sum(each.bytes for each in plan.sub_ranges) == sum(
        len(file.data) - 4 for file in files.values()
    )


@pytest.mark.parametrize("flavor", Flavor)
def test_what_statements_did_is_read_from_a_plan_as_it_was_written(flavor: Flavor) -> None:
    changes: list[TableChange] = []
    for text in {text for steps in ALL for text in (*steps.tables, *steps.statements)}:
        whole = text if " TABLE " in text else f"ALTER TABLE t {text}"
        with suppress(UnsupportedError):  # of another server, or under another sql_mode
            ddl = read_ddl(whole, Session(flavor, "shop", 0))
            changes += [] if ddl is None else ddl.changes
    done = [change for change in changes if not isinstance(change, Truncated)]
    assert len(done) > 100
    assert {type(each) for each in done} >= {Altered, Created, Dropped, Renamed}

    stored = [LoggedChange(1, "binlog.000001", 4, change) for change in done]

    assert list(from_json(tuple[LoggedChange, ...], json.loads(to_text(stored)))) == stored
