"""A log that is purged, loses a file, or is damaged: refused until it is repaired as it says."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog.errors import (
    BinlogError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
    ServerSetupError,
)
from airflow_provider_binlog.position import Position
from airflow_provider_binlog.transport.server import queries
from tests.faults.gate import Gate
from tests.faults.tasks import LARGE, Tasks, log_files
from tests.fixtures.mysql import execute, flush_log, newest_file, purge, query
from tests.fixtures.spark import SparkEnvironment
from tests.support.snapshots import take
from tests.unit.spark.session import reading_session, shared_session
from tests.unit.spark.workplace import Workplace, local_workplace

pytestmark = [pytest.mark.server, pytest.mark.timeout(120)]


def purge_all(tasks: Tasks) -> None:
    """Purge every file but the one that is written."""
    server = tasks.database.server
    purge(server, flush_log(server))


def at_the_end(tasks: Tasks) -> str:
    """Return where the log ends, as a source's start."""
    with closing(tasks.database.connect()) as connection:
        return str(queries.log_end(connection)).split(" ")[0]


@pytest.mark.spark
@pytest.mark.fault("purged", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_purged_checkpoint_is_repaired_by_snapshots(
    kind: str, tasks: Tasks, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    first = local_workplace(shared_session(spark_environment), "delta", tmp_path)
    repaired(tasks, first, purge_all, PositionPurgedError)


def reset_all(tasks: Tasks) -> None:
    """Begin a new log, in which the table is not created."""
    mariadb = tasks.database.server.name.startswith("mariadb")
    execute(tasks.database.server, "RESET MASTER" if mariadb else "RESET BINARY LOGS AND GTIDS")


def rename_all(tasks: Tasks) -> None:
    """Begin a log of another base name."""
    tasks.database.server.restart({"log_bin": "renamed"})


def damage_one(tasks: Tasks) -> None:
    """Flip a bit of a row, in a file of which there is no copy."""
    _, file = grown_files(tasks)
    damaged = bytearray(file.read_bytes())
    damaged[damaged.rindex(b"changed")] ^= 1
    file.write_bytes(damaged)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.fault("restored", servers="mysql97 mariadb118", stores="file")
@pytest.mark.fault("renamed", servers="mysql97 mariadb118", stores="file")
@pytest.mark.fault("flipped", servers="mysql97 mariadb118", stores="file")
@pytest.mark.parametrize("lose", [reset_all, rename_all, damage_one])
def test_a_log_that_is_lost_is_repaired_by_snapshots(
    kind: str,
    lose: Callable[[Tasks], None],
    tasks: Tasks,
    spark_environment: SparkEnvironment,
    tmp_path: Path,
) -> None:
    first = local_workplace(shared_session(spark_environment), "delta", tmp_path)
    try:
        repaired(tasks, first, lose, FormatError if lose is damage_one else ForeignPositionError)
    finally:
        if lose is rename_all:
            tasks.database.server.restart()


def repaired(
    tasks: Tasks, first: Workplace, lose: Callable[[Tasks], None], error: type[BinlogError]
) -> None:
    """Lose the log, and do as the error says: capture what is left, into the same lake."""
    first.source = tasks.source.name
    target = first.lake.target(tasks.database.name, "orders")

    def in_the_lake() -> list[Any]:
        rows = reading_session(first.spark).table(target).orderBy("id").collect()
        return [(row["id"], row["note"]) for row in rows]

    def on_the_server() -> list[Any]:
        return tasks.database.query("SELECT id, note FROM orders ORDER BY id")

    tasks.run()
    first.merge()
    before = on_the_server()
    assert in_the_lake() == before
    tasks.change(12)
    lose(tasks)
    tasks.change(13)

    text = tasks.fails(error, says="load its tables from snapshots; into the same lake with adopt")
    named = re.search(r'BinlogSource\("shop_2", conn_id="binlog_default", start="(.*?)"\)', text)
    assert named is not None, text
    again, second = tasks.named("shop_2", start=named[1]), replace(first, source="shop_2")
    again.save(again.stage())
    take(tasks.database, "orders", tasks.store, source_name="shop_2")
    tasks.change(14)
    again.save(again.stage())

    assert "merge with adopt=True" in str(second.failure().error)
    assert in_the_lake() == before
    second.merge(adopt=True)
    assert in_the_lake() == on_the_server()
    tasks.change(15)
    again.save(again.stage())
    second.merge()
    assert in_the_lake() == on_the_server()


@pytest.mark.fault(
    "purged-planning", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_log_that_is_purged_while_a_range_is_planned(kind: str, tasks: Tasks, gate: Gate) -> None:
    """Before each connection of a task: what is purged is missed, never skipped."""
    for number in range(1, 12):
        tasks.database.execute("TRUNCATE TABLE orders")
        each = tasks.named(f"shop_{number}", start=at_the_end(tasks))
        each.change(1)
        gate.open_again()
        each.run()
        each.change(2)
        gate.act_at(number, lambda: purge_all(tasks))
        try:
            each.fails(PositionPurgedError)
        except pytest.fail.Exception:
            # Not refused: then nothing is missing.
            if not gate.acted:
                break
            each.save(each.stage())
            each.check()
    assert number > 4


@pytest.mark.fault(
    "purged-reading", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file"
)
def test_a_log_that_is_purged_while_it_is_read(kind: str, tasks: Tasks, gate: Gate) -> None:
    """The server keeps the file that it sends, and those that follow."""
    tasks.run()
    many_files(tasks)
    server = tasks.database.server
    last = newest_file(server)

    gate.act_after(2 * LARGE, lambda: execute(server, f"PURGE BINARY LOGS TO '{last}'"))
    try:
        tasks.run()
    except AirflowFailException as error:
        # MariaDB 10.11 may purge what a second stream of the same task begins with.
        assert str(error).startswith("PositionPurgedError")  # noqa: PT017
    else:
        tasks.nothing_left()
    assert gate.acted


@pytest.mark.fault("vanished", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_file_that_vanishes_while_it_is_read(kind: str, tasks: Tasks, gate: Gate) -> None:
    tasks.run()
    many_files(tasks)
    file = log_files(tasks)[-2]
    away = file.with_name("away")

    gate.act_after(2 * LARGE, lambda: file.rename(away))
    tasks.fails(PositionPurgedError)
    assert gate.acted
    tasks.fails(PositionPurgedError)
    away.rename(file)

    tasks.run()
    tasks.nothing_left()


def many_files(tasks: Tasks) -> None:
    """Let the log grow over several files."""
    for number in (2, 3, 4):
        tasks.grow(number, 6)
        flush_log(tasks.database.server)


def whole_events(tasks: Tasks, file: Path) -> list[tuple[int, str]]:
    """Return where the events of a file end, and their types."""
    rows = query(tasks.database.server, f"SHOW BINLOG EVENTS IN '{file.name}'")
    return [(int(row[4]), str(row[2])) for row in rows]


def grown_files(tasks: Tasks) -> list[Path]:
    """Let the log grow by three files of a few transactions; return the first two."""
    for number in (2, 3, 4):
        tasks.change(number)
        flush_log(tasks.database.server)
    return log_files(tasks)[-4:-2]


@pytest.mark.fault("truncated", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_truncated_file_is_refused_until_it_is_restored(kind: str, tasks: Tasks) -> None:
    tasks.run()
    for file in grown_files(tasks):
        whole, events = file.read_bytes(), whole_events(tasks, file)
        commits = [end for end, type_ in events if type_ == "Xid"]
        inside = [end for end, type_ in events if type_.lower().startswith("write_rows")]

        # Inside an event, between two events of a transaction, between transactions.
        for size in (inside[-1] - 9, inside[-1], commits[-2]):
            file.write_bytes(whole[:size])
            # MariaDB cannot list the events of the checkpoint's file any more.
            tasks.fails(FormatError, PositionPurgedError)
        file.write_bytes(whole)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("flipped", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_flipped_bit_is_refused_until_the_file_is_restored(kind: str, tasks: Tasks) -> None:
    tasks.run()
    _, file = grown_files(tasks)
    whole, draw = file.read_bytes(), random.Random(kind)
    first = whole_events(tasks, file)[1][0]

    for _ in range(12):
        offset = draw.randrange(first, len(whole))
        damaged = bytearray(whole)
        damaged[offset] ^= 1 << draw.randrange(8)
        file.write_bytes(damaged)
        # A length that is too large for the server, which says what to set.
        tasks.fails(FormatError, ServerSetupError)
    file.write_bytes(whole)

    tasks.run()
    tasks.nothing_left()


@pytest.mark.fault("rotated", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_file_per_transaction(kind: str, tasks: Tasks) -> None:
    tasks.run()
    rotate(tasks, 50)
    tasks.run()
    rotate(tasks, 3)
    tasks.run()
    tasks.nothing_left()


@pytest.mark.slow
@pytest.mark.fault("rotated", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_log_that_is_rotated_while_it_is_read(kind: str, tasks: Tasks, gate: Gate) -> None:
    """The file at whose end the range stops is not the last one any more, and grows no more."""
    tasks.run()
    tasks.grow(2)
    rotated: list[int] = []

    def rotate_and_write() -> None:
        for number in range(3, 6):
            flush_log(tasks.database.server)
            tasks.change(number)
            rotated.append(number)

    gate.act_after(2 * LARGE, rotate_and_write)
    staged = tasks.stage()
    tasks.save(staged)
    assert (gate.acted, rotated) == (True, [3, 4, 5])
    assert Position.from_json(staged["stop"]).file_number < newest_number(tasks)

    tasks.run()
    tasks.nothing_left()


def newest_number(tasks: Tasks) -> int:
    return int(newest_file(tasks.database.server).rpartition(".")[2])


@pytest.mark.slow
@pytest.mark.timeout(1200)
@pytest.mark.fault("many-files", servers="mysql97 mariadb1011", stores="file")
def test_ten_thousand_files_in_one_range(kind: str, tasks: Tasks) -> None:
    tasks.run()
    rotate(tasks, 10_000)
    tasks.run()
    tasks.nothing_left()


def rotate(tasks: Tasks, count: int) -> None:
    """Commit transactions, each of which ends its file of the log."""
    with closing(tasks.database.connect()) as connection, connection.cursor() as cursor:
        cursor.execute("DELETE FROM orders WHERE id >= 100000")
        for number in range(100_000, 100_000 + count):
            cursor.execute(f"INSERT INTO orders VALUES ({number}, 'rotated')")
            cursor.execute("FLUSH BINARY LOGS")
    flush_log(tasks.database.server)


@pytest.mark.fault("renamed", servers="mysql97 mysql80 mariadb1011 mariadb118", stores="file")
def test_a_log_of_another_base_name_is_refused(kind: str, tasks: Tasks) -> None:
    tasks.run()
    server = tasks.database.server

    server.restart({"log_bin": "renamed"})
    tasks.fails(ForeignPositionError)
    server.restart()

    tasks.change(2)
    tasks.run()
    tasks.nothing_left()
