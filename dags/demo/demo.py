"""The demo: four runs of the DAG, and after each a look at every row."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pymysql

from airflow_provider_binlog.transport.server import queries
from dags.demo import shop, surroundings
from dags.demo.happenings import HAPPENINGS, SPOILING, statements
from dags.demo.next_steps import what_next
from dags.demo.report import Outcome, differences, table
from dags.demo.runs import Run, Watch, read_run
from dags.demo.source import Source, connect, make_source
from dags.demo.surroundings import FOLDER, Surroundings
from tests.services.progress import ServiceError, say, step
from tests.support.compare import Table, compare, read_tables, select
from tests.support.worker import Worker

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dags.demo.choice import Choice

LOGS = FOLDER / "logs"
_HOME = FOLDER / "airflow"


@dataclass
class Demo:
    """A demo under way.

    Attributes:
        start: Where its log begins.
        airflow, lake: The processes that run the DAG, and read the tables.
    """

    surroundings: Surroundings
    start: str
    airflow: Worker
    lake: Worker

    @property
    def choice(self) -> Choice:
        """What the user chose."""
        return self.surroundings.choice

    def run_dag(self, *, stale: bool = False) -> Run:
        """Run the DAG once, to its good end; where a table gets stale, the last task has to fail.

        Raises:
            ServiceError: The run failed, or another task did.
        """
        say("the DAG binlog_shop, in Airflow:")
        watch = Watch(_HOME)
        run_id, state = self.airflow.call("run_dag", self.start, meanwhile=watch.report)
        watch.report()
        run = read_run(_HOME, run_id)
        if (state, run.failed) != (("failed", ["tables_live"]) if stale else ("success", [])):
            raise ServiceError(self.airflow.process.failure(f"the run of the DAG: {state}"))
        return run

    def compare(self, run: Run, *, stale: str = "") -> bool:
        """Compare every table, and print how it came out.

        Args:
            run: After which run.
            stale: A table that the merge has to call stale, and that is not compared.

        Returns:
            Whether all others are equal.
        """
        with connect(self.surroundings.dsn) as connection:
            tables = read_tables(connection, self.choice.database)
            with step("every table in the lake against SELECT, row by row, column by column"):
                outcomes = []
                for each in map(identified, tables):
                    source = select(connection, each)
                    outcomes.append(self._outcome(each, run, source))
        print(table(outcomes))
        for outcome in outcomes:
            if outcome.stale:
                print(f"    {outcome.table} is stale: {outcome.stale}")
            elif not outcome.equal:
                print(differences(outcome))
        print(flush=True)
        found = [outcome.table for outcome in outcomes if outcome.stale]
        return found == [stale][: bool(stale)] and all(outcome.equal for outcome in outcomes)

    def _outcome(self, each: Table, run: Run, source: list[dict[str, object]]) -> Outcome:
        lake = self.lake.call("read_columns", self.surroundings.relation(each.name))
        merged = run.table(f"{each.database}.{each.name}")
        changes = merged.get("changes", {})
        stale = merged["reason"] if merged.get("status") == "stale" else ""
        return Outcome(
            table=each.name,
            rows=len(source),
            inserts=changes.get("insert", 0),
            updates=changes.get("update_postimage", 0),
            deletes=changes.get("delete", 0),
            seconds=merged.get("seconds", 0.0),
            differences=[] if stale else list(compare(each, source, lake)),
            stale=stale,
        )


def identified(table: Table) -> Table:
    """Return a table whose rows are found by all columns if it has no key."""
    return replace(table, key=table.key or tuple(column.name for column in table.columns))


def show_demo(choice: Choice, *, spoil: bool) -> int:
    """Run the demo; return the exit code: 1 where a table is not equal.

    With `spoil` one value is changed without being logged, which must be found.

    Raises:
        ServiceError: Something does not work.
    """
    began = time.monotonic()
    with open_demo(choice) as demo:
        equal = all(
            (
                _first_changes(demo),
                _more_changes(demo),
                _a_reload(demo),
                _nothing_new(demo, spoil=spoil),
            )
        )
    seconds = time.monotonic() - began
    if not equal:
        print(f"NOT EQUAL: a lake table differs from its source, see above. {seconds:.0f} s")
        return 1
    print(f"Equal: every table after every run. {seconds:.0f} s\n")
    print(what_next(demo.surroundings), flush=True)
    return 0


@contextmanager
def open_demo(choice: Choice) -> Iterator[Demo]:
    """Start everything, with the shop's first rows; all of it ends with the block."""
    surroundings.clear()
    print(f"The output of Airflow and Spark is in {LOGS}.\n", flush=True)
    with ExitStack() as stack:
        source = make_source(choice, FOLDER / "server")
        store = surroundings.open_store(choice)
        if store is not None:
            stack.callback(store.stop)
        database = surroundings.open_database(choice)
        if database is not None:
            stack.callback(database.stop)
        around = Surroundings(choice, source.dsn, store, database)
        # They take their time, so they begin while the server still starts.
        airflow = Worker(
            "dags.demo.airflow_worker",
            folder=LOGS,
            name="airflow",
            env=around.airflow_environment(),
        )
        stack.callback(airflow.stop)
        lake = Worker(
            "dags.demo.lake_worker", folder=LOGS, name="spark", env=around.spark_environment()
        )
        stack.callback(lake.stop)
        stack.callback(source.stop)
        start = open_shop(source, choice)
        with step("Airflow over SQLite, and a Spark session to compare with: start"):
            airflow.call("ready")
            lake.call("ready")
        yield Demo(around, start, airflow, lake)


def open_shop(source: Source, choice: Choice) -> str:
    """Start the server and make the shop's database; return where its log begins."""
    source.start()
    database = choice.database
    with (
        step(f"the database {database}: tables, and rows of which half are in no log"),
        connect(source.dsn) as connection,
        connection.cursor() as cursor,
    ):
        start = queries.log_end(connection)
        with suppress(pymysql.err.OperationalError):  # a user's account may not
            cursor.execute("SET SESSION sql_log_bin = 0")
        cursor.execute(f"CREATE DATABASE {database} CHARACTER SET utf8mb4")
        cursor.execute(f"USE {database}")
        shop.create(cursor)
        shop.fill(cursor, logged=lambda: _log_again(cursor))
    surroundings.remember(choice)
    return f"{start.file}:{start.offset}"


def _log_again(cursor: shop.Cursor) -> None:
    with suppress(pymysql.err.OperationalError):
        cursor.execute("SET SESSION sql_log_bin = 1")


def _first_changes(demo: Demo) -> bool:
    print("Run 1: the rows from before the log, and the first changes", flush=True)
    return demo.compare(demo.run_dag())


def _more_changes(demo: Demo) -> bool:
    print("Run 2: " + ", ".join(HAPPENINGS), flush=True)
    for script in HAPPENINGS.values():
        _execute(demo, *statements(script))
    return demo.compare(demo.run_dag(stale=True), stale="visits")


def _a_reload(demo: Demo) -> bool:
    print("Run 3: the stale table is reloaded", flush=True)
    _execute(demo, "INSERT INTO visits VALUES (2000, 2024, '/back')")
    return demo.compare(demo.run_dag())


def _nothing_new(demo: Demo, *, spoil: bool) -> bool:
    print("Run 4: nothing new", flush=True)
    if spoil:
        _execute(demo, "SET SESSION sql_log_bin = 0", SPOILING)
        print("    one value was changed without being logged: it must be found")
    before = demo.surroundings.manifests, demo.surroundings.parts
    run = demo.run_dag()
    staged = (demo.surroundings.manifests, demo.surroundings.parts) != before
    if demo.choice.dsn is None and (staged or not run.skipped):
        raise ServiceError("there was nothing new, and yet the DAG found something to do")
    if run.skipped:
        print(f"    the sensor skipped the run; there are still {len(before[0])} manifests")
    else:
        print("    others wrote to your server in between: that was read, and skipped")
    return demo.compare(run)


def _execute(demo: Demo, *commands: str) -> None:
    with connect(demo.surroundings.dsn) as connection, connection.cursor() as cursor:
        cursor.execute(f"USE {demo.choice.database}")
        for command in commands:
            cursor.execute(command)
