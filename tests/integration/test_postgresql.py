"""The merge into PostgreSQL: all tables of a run at once, in place, with what depends on them."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

from airflow_provider_binlog.spark.merge.run import opened_merges
from airflow_provider_binlog.spark.target.postgresql import connection as connections
from airflow_provider_binlog.spark.target.postgresql.target import PostgresTarget
from airflow_provider_binlog.table_options import TableRules
from tests.services.postgresql import PostgresServer
from tests.support.killed_writes import Killed
from tests.support.postgresql import administer, read_rows
from tests.unit.spark.database_workplace import database_workplace as make_workplace
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.session import shared_session
from tests.unit.spark.staged_changes import BIGINT, INT, TEXT, ColumnType

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.fixtures.spark import SparkEnvironment
    from tests.unit.spark.database_workplace import DatabaseWorkplace
    from tests.unit.spark.history import Table

pytestmark = pytest.mark.spark

LONG = "é" * 40
JSON = ColumnType("json", pa.string())
PRICE = ColumnType("decimal(65,30)", pa.string())
STAGED = "SELECT tablename FROM pg_tables WHERE tablename LIKE 'staged%'"
SESSIONS = "SELECT pid FROM pg_stat_activity WHERE usename = 'merge'"


@dataclass
class Shop:
    """Tables of one source.

    Attributes:
        others: Those beside `orders` and `items`.
    """

    orders: Table
    items: Table
    others: list[Table] = field(default_factory=list)

    @property
    def tables(self) -> list[Table]:
        return [self.orders, self.items, *self.others]

    def change(self) -> None:
        """Let both tables change, columns included, and create a third one."""
        orders, items = self.orders, self.items
        orders.update(1, note="changed")
        orders.alter("ADD COLUMN n INT DEFAULT 7", {"id": BIGINT, "note": TEXT, "n": INT}, n=7)
        orders.insert(id=20, note="new", n=1)
        items.delete(3)
        items.truncate()
        items.insert(id=4, n=44)
        visits = orders.source.create(orders.name[0], "visits", {"id": INT}, ("id",))
        visits.insert(id=1)
        self.others.append(visits)
        orders.source.commit()


@pytest.fixture
def shop(database_workplace: DatabaseWorkplace) -> Shop:
    """Two tables that are merged, of ten rows each."""
    workplace = database_workplace
    source = workplace.new_source()
    orders = source.create(workplace.database, "orders", {"id": INT, "note": TEXT}, ("id",))
    items = source.create(workplace.database, "items", {"id": INT, "n": INT}, ("id",))
    for id_ in range(10):
        orders.insert(id=id_, note=f"note {id_}")
        items.insert(id=id_, n=id_)
    workplace.follow(orders, items)
    return Shop(orders, items)


@contextmanager
def killed_at(statement: str, *, done: bool = False) -> Iterator[None]:
    """End the process at a statement, or once that is done."""
    execute = connections.Connection.execute

    def run(connection: connections.Connection, text: str) -> int:
        if text.startswith(statement):
            if done:
                execute(connection, text)
            raise Killed
        return execute(connection, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections.Connection, "execute", run)
        yield


def ignore(*_: object) -> None:
    return None


@pytest.mark.fault("merge-killed", lakes="postgresql", stores="file")
@pytest.mark.parametrize(
    "statements",
    [
        ("CREATE UNLOGGED", "ALTER", "MERGE", "COMMIT"),
        pytest.param(("BEGIN", "DELETE", "CREATE TABLE", "INSERT"), marks=pytest.mark.slow),
    ],
)
def test_a_run_that_is_killed_leaves_every_table_as_it_was(
    shop: Shop, database_workplace: DatabaseWorkplace, statements: tuple[str, ...]
) -> None:
    workplace = database_workplace
    before = [workplace.found(table) for table in shop.tables[:2]]
    shop.change()

    for statement in statements:
        with killed_at(statement), pytest.raises(Killed):
            workplace.try_merge(threads=1)
        assert [workplace.found(table) for table in shop.tables[:2]] == before
        schema = f"table_schema = '{workplace.database}'"
        query = f"SELECT table_name FROM information_schema.tables WHERE {schema}"
        assert len(read_rows(workplace.other, query)) == 2

    workplace.merge()
    workplace.check(*shop.tables)
    assert read_rows(workplace.other, STAGED) == []


@pytest.mark.fault("merge-killed", lakes="postgresql", stores="file")
def test_a_commit_whose_answer_is_lost_is_not_repeated(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    shop.change()
    with killed_at("COMMIT", done=True), pytest.raises(Killed):
        database_workplace.try_merge()
    database_workplace.check(*shop.tables)

    report = database_workplace.merge()

    assert not any(table.is_merged for table in report.tables)
    database_workplace.check(*shop.tables)


@pytest.mark.slow
@pytest.mark.fault("database-killed", lakes="postgresql", stores="file")
@pytest.mark.parametrize("statement", ["MERGE", "COMMIT"])
def test_a_server_that_is_killed_within_a_commit(
    statement: str, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    spark = shared_session(spark_environment)
    server = PostgresServer.create("postgresql18", tmp_path / "server")
    server.start()
    workplace = make_workplace(spark, server, tmp_path)
    table = workplace.new_source().create(workplace.database, "orders", {"id": INT}, ("id",))
    table.insert(id=1)
    workplace.follow(table)
    table.insert(id=2)
    table.source.commit()
    execute = connections.Connection.execute

    def kill(connection: connections.Connection, text: str) -> int:
        if text.startswith(statement):
            server.kill()
        return execute(connection, text)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(connections.Connection, "execute", kill)
        (failed,) = workplace.try_merge().tables

    assert failed.retryable
    server.start()
    workplace.other = administer(spark, server)
    workplace.merge()
    workplace.check(table)
    server.stop()


@pytest.mark.fault("database-cut", lakes="postgresql", stores="file")
def test_merges_of_a_job_go_on_after_their_sessions_were_ended(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    workplace, orders = database_workplace, shop.orders
    execute = connections.Connection.execute

    def end_sessions() -> None:
        ended = f"SELECT pg_terminate_backend(pid, 10000) FROM ({SESSIONS}) AS merge"
        read_rows(workplace.other, ended)

    def cut(connection: connections.Connection, text: str) -> int:
        if text == "BEGIN":
            end_sessions()
        return execute(connection, text)

    with opened_merges(workplace.spark, workplace.options()) as (merge, _):
        shop.change()
        assert not merge(ignore).failed
        end_sessions()
        orders.update(1, note="ended between two merges")
        orders.source.commit()
        assert not merge(ignore).failed
        workplace.check(*shop.tables)

        orders.update(2, note="ended before a commit")
        orders.source.commit()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(connections.Connection, "execute", cut)
            failed = [table for table in merge(ignore).tables if table.error is not None]
        assert [table.retryable for table in failed] == [True]
        assert not merge(ignore).failed

    workplace.check(*shop.tables)
    assert read_rows(workplace.other, STAGED) == []


def test_a_table_that_fails_in_each_merge_of_a_job_leaves_nothing(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    workplace = database_workplace
    shop.orders.update(1, note="a\0b")
    shop.orders.source.commit()

    with opened_merges(workplace.spark, workplace.options(threads=1)) as (merge, _):
        for _ in range(3):
            assert merge(ignore).failed
        assert read_rows(workplace.other, STAGED) == []
        # One of them may not have ended yet.
        assert len(read_rows(workplace.other, SESSIONS)) <= 2


def test_a_table_that_fails_does_not_stop_the_others(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    workplace, items = database_workplace, shop.items
    workplace.other.execute(f"ALTER TABLE {workplace.target(orders)} ADD CHECK (note <> 'refused')")
    orders.update(1, note="refused")
    items.update(1, n=11)
    orders.source.commit()

    failed = workplace.failure()

    assert failed.table.endswith("orders")
    assert "check constraint" in str(failed.error)
    # The refused row is data, and no part of a message.
    assert "note 1" not in str(failed.error)
    workplace.check(items)
    orders.update(1, note="accepted")
    workplace.follow(*shop.tables)


@pytest.mark.fault("conflict", lakes="postgresql", stores="file")
def test_of_two_merges_at_once_one_counts(
    shop: Shop, database_workplace: DatabaseWorkplace, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.change()
    commit = PostgresTarget.commit_staged

    def overtaken(target: PostgresTarget, staged: Any) -> Any:
        monkeypatch.setattr(PostgresTarget, "commit_staged", commit)
        database_workplace.merge()
        return commit(target, staged)

    monkeypatch.setattr(PostgresTarget, "commit_staged", overtaken)
    report = database_workplace.try_merge()

    assert {table.retryable for table in report.tables} == {True}
    database_workplace.check(*shop.tables)
    database_workplace.merge()
    database_workplace.check(*shop.tables)


def test_columns_follow_in_place_and_keep_what_depends_on_the_table(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    workplace, target = database_workplace, database_workplace.target(orders)
    oid = f"SELECT '{target}'::regclass::oid::bigint AS oid"
    before = read_rows(workplace.other, oid)
    workplace.other.execute(f'CREATE VIEW {target[:-1]} notes" AS SELECT note FROM {target}')

    types = {"id": BIGINT, "text": TEXT, "data": JSON, "price": PRICE}
    orders.alter("...", types, renamed={"text": "note"})
    orders.insert(id=2**40, text="\t\\N\n", data='{"a": 1}', price="1." + "0" * 30)
    workplace.follow(orders)
    orders.alter("...", types | {"from": INT, "_column_1": INT, LONG: INT})
    orders.update(1, **{"from": 6, LONG: 1})
    workplace.follow(orders)
    swapped = {"id": BIGINT, "data": TEXT, "text": JSON, "from": INT, "_column_1": INT, LONG: INT}
    workplace.other.execute(f'DROP VIEW {target[:-1]} notes"')
    orders.alter("...", swapped, renamed={"data": "text", "text": "data"})
    workplace.follow(orders, in_order=False)

    assert read_rows(workplace.other, oid) == before
    names = [column.name for column in workplace.stored(orders).columns]
    assert max(len(name.encode()) for name in names) == 63


def test_a_view_that_blocks_a_change_is_named_and_a_reload_keeps_grants(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    workplace, items = database_workplace, shop.items
    target = workplace.target(orders)
    workplace.other.execute(f"CREATE VIEW {workplace.database}.keys AS SELECT id FROM {target}")
    workplace.other.execute(f"GRANT SELECT ON {target} TO PUBLIC")
    orders.alter("MODIFY id BIGINT", {"id": BIGINT, "note": TEXT})
    orders.insert(id=2**40, note="wide")
    items.update(1, n=11)
    orders.source.commit()

    held = workplace.held()

    assert held.status == "stale"
    assert "view" in held.reason
    assert "keys depends on column" in held.reason
    workplace.check(items)
    workplace.other.execute(f"DROP VIEW {workplace.database}.keys")
    take_snapshot(orders)
    workplace.follow(orders)
    grants = f"SELECT has_table_privilege('public', '{target}', 'SELECT') AS granted"
    assert read_rows(workplace.other, grants) == [{"granted": True}]


def test_a_renamed_table_takes_its_rows_along(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    orders.update(1, note="before")
    orders.source.rename((orders, "sales"))
    orders.update(2, note="after")

    database_workplace.follow(*shop.tables)


@pytest.mark.parametrize("policy", ["strip", "replace"])
def test_nul_characters_are_refused_by_name_or_changed_as_chosen(
    shop: Shop, database_workplace: DatabaseWorkplace, policy: str
) -> None:
    orders = shop.orders
    workplace = database_workplace
    orders.update(1, note="a\0b")
    orders.source.commit()

    failed = workplace.failure()
    assert "NUL" in str(failed.error)
    assert "column=note" in str(failed.error)
    assert not failed.retryable
    workplace.merge(table_options=TableRules.read({"*": {"on_nul": policy}}))

    notes = {row["id"]: row["note"] for row in workplace.found(orders)}
    assert notes[1] == {"strip": "ab", "replace": "a\ufffdb"}[policy]


def test_a_type_that_was_chosen_by_hand_is_kept(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    workplace, target = database_workplace, database_workplace.target(orders)
    orders.alter("...", {"id": INT, "note": TEXT, "data": JSON})
    orders.update(1, data='{"b": 1, "a": 2}')
    workplace.follow(orders)
    workplace.other.execute(f"ALTER TABLE {target} ALTER data TYPE jsonb")

    orders.update(2, data='{"d": 1}')
    orders.source.commit()
    workplace.merge()

    query = f"SELECT data->'d' AS d FROM {target} WHERE id = 2"
    assert read_rows(workplace.other, query) == [{"d": 1}]


@pytest.mark.fault("lake-altered", lakes="postgresql", stores="file")
def test_a_table_that_was_made_again_is_not_taken_for_the_merged_one(
    shop: Shop, database_workplace: DatabaseWorkplace
) -> None:
    orders = shop.orders
    workplace, target = database_workplace, database_workplace.target(orders)
    made = f"{workplace.database}.made"
    workplace.other.execute(f"CREATE TABLE {made} AS SELECT * FROM {target} WHERE id < 5")
    workplace.other.execute(f"DROP TABLE {target}")
    workplace.other.execute(f"ALTER TABLE {made} RENAME TO orders")
    workplace.other.execute(f"ALTER TABLE {target} OWNER TO merge")
    orders.update(7, note="changed")
    orders.source.commit()

    held = workplace.held()

    assert (held.status, "reload it" in held.reason) == ("loading", True)
    take_snapshot(orders)
    workplace.follow(orders)


def test_many_rows_are_merged(database_workplace: DatabaseWorkplace) -> None:
    workplace = database_workplace
    types = {"id": INT, "amount": ColumnType("decimal(12,2)", pa.decimal128(12, 2)), "note": TEXT}
    table = workplace.new_source().create(workplace.database, "many", types, ("id",))
    table.identity.part_rows = 4_000
    for id_ in range(12_000):
        table.insert(id=id_, amount=Decimal(id_), note=f"note {id_}\\")
    workplace.follow(table)
    for id_ in range(0, 12_000, 2):
        table.update(id_, note=None)
    for id_ in range(1, 12_000, 3):
        table.delete(id_) if id_ % 2 else None
    workplace.follow(table)
