"""Any log in any sub-ranges gives the manifest that one extract of the whole gives."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from hypothesis import given, settings
from hypothesis import strategies as st

from airflow_provider_binlog.binlog.event_types import EventType
from airflow_provider_binlog.capture.backlog import (
    BacklogPlan,
    commit_backlog,
    plan_backlog,
    stage_sub_range,
)
from airflow_provider_binlog.capture.log_range import LogRange
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.position import Flavor
from tests.support import builder
from tests.support.logs import Made
from tests.support.requests import a_request
from tests.unit.capture.prepared_logs import BEGIN, OPERATIONS, A, Writer, a_log, play, rows_of
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


def test_temporary_tables_are_known_in_later_sub_ranges() -> None:
    writer = Writer(Flavor.MYSQL)

    def logged(number: int, sql: str) -> list[Made]:
        return [writer.start(number), Made(EventType.QUERY, builder.query(sql, thread_id=1))]

    name = A.table
    files = a_log(
        Flavor.MYSQL,
        [
            *writer.plain(1, *writer.changes(1)),
            *logged(2, f"CREATE TEMPORARY TABLE {name} (a int)"),
        ],
        logged(3, f"TRUNCATE {name}"),
    )
    source, stop, stores = file_source(files), end_of(files), [new_store(), new_store()]
    whole = capture(source, stop, store=stores[0])
    assert whole.statements == ()

    plan = plan_backlog(LogRange(a_request(BEGIN, stop)), source, target_bytes=1)
    plan = BacklogPlan.decode(plan.encode())
    assert [len(each.temporary) for each in plan.sub_ranges] == [0, 1]
    assert len(plan.temporary) == 1
    for number in range(2):
        stage_sub_range(plan, number, source, stores[1])
    joined = commit_backlog(plan, stores[1], created_by="a test")

    assert without_parts(joined) == without_parts(whole)
