"""One run on tables that are older than the log: loaded from snapshots while they are written.

The tables, and their first rows, are written without the log. Then random statements run while
snapshots are read, some of whose tasks die and are tried again. What a merge cannot follow is
loaded again in the next range. In the end every table is live and equals what SELECT returns, or is
refused for a reason that no snapshot ends.
"""

from __future__ import annotations

import re
import threading
from contextlib import closing
from datetime import UTC, datetime
from random import Random
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.changes import OnTableError
from airflow_provider_binlog.errors import (
    SourceError,
    TableAlteredError,
    TableLockedError,
    UnsupportedError,
)
from airflow_provider_binlog.sources.lakes import find_needed
from airflow_provider_binlog.spark.merge.progress import load_progress, progress_folder
from airflow_provider_binlog.staging.paths import StoredFiles
from tests.fixtures.mysql import flush_log
from tests.random_ddl.comparison import find_differences
from tests.random_ddl.run import Outcome, WrongError, noted
from tests.random_ddl.writer import Writer
from tests.support.dying_store import KilledError
from tests.support.snapshots import after_chunks, take

if TYPE_CHECKING:
    from collections.abc import Collection

    from tests.support.pipeline import Pipeline

LASTING = (
    "values in the key column|differ only in case|primary key was dropped|table has no key"
    # Of rows that the lake table keeps, and of columns that the options name.
    "|that back; or drop the lake table|keeps removed rows|values of removed rows|track_columns"
)
"""What a merge refuses however often the table is loaded."""

_QUIET_ROUNDS_MAX = 4
_QUIET = "_quiet"
_CHUNK_BYTES = (2048, 16 << 10, 1 << 20)
# Of tables of thousands of rows, a chunk of some rows takes longer to plan than to read.
_CHUNK_BYTES_OF_BULK = (64 << 10, 1 << 20)


class Loader:
    """Takes snapshots of the tables that need one, as the tasks of a DAG do.

    Attributes:
        rows: How many rows the snapshots have.
        snapshots: How many there are.
        again: Tables whose last snapshot was refused, or that a merge failed.
        refused: Tables that cannot be read, with the reason.
    """

    def __init__(self, pipeline: Pipeline, random: Random, *, bulk: int) -> None:
        self.rows = self.snapshots = 0
        self.again: set[str] = set()
        self.refused: dict[str, str] = {}
        self._pipeline, self._random = pipeline, random
        self._sizes = _CHUNK_BYTES_OF_BULK if bulk else _CHUNK_BYTES
        self._tries = 0

    def needed(self, tables: Collection[str]) -> set[str]:
        """Return which of the server's tables are to be read."""
        workplace, database = self._pipeline.workplace, self._pipeline.database
        files = StoredFiles(workplace.store, workplace.source)
        options = workplace.options(table_options=self._pipeline.table_options)
        folder = progress_folder(options.format, options.lake, options.table_options)
        needed, _ = find_needed(
            workplace.store,
            workplace.source,
            [(database.name, name) for name in tables],
            load_progress(files, folder),
            now=datetime.max.replace(tzinfo=UTC),
        )
        return {name for _, name in needed} | (self.again & set(tables))

    def load(self, table: str) -> None:
        """Take a snapshot of a table, by a task that may die once."""
        self._tries += 1
        workplace, random = self._pipeline.workplace, self._random
        arguments: dict[str, Any] = {
            "store": workplace.store,
            "source_name": workplace.source,
            "created_by": f"run {self._tries}",
            "chunk_bytes": random.choice(self._sizes),
            "policies": self._pipeline.policies,
        }
        self.refused.pop(table, None)
        try:
            if random.random() < 0.5:
                try:
                    dies = after_chunks(random.randint(1, 3), _die)
                    taken = take(self._pipeline.database, table, on_progress=dies, **arguments)
                except KilledError:
                    taken = take(self._pipeline.database, table, **arguments)
            else:
                taken = take(self._pipeline.database, table, **arguments)
        except (TableAlteredError, TableLockedError):
            return
        except UnsupportedError as error:
            self.refused[table] = str(error)
            return
        except SourceError as error:
            # It was dropped, or renamed.
            if not re.search("no such table|doesn't exist", str(error)):
                raise
            return
        self.again.discard(table)
        self.snapshots += 1
        self.rows += taken.rows


def _die() -> None:
    raise KilledError


def run_loading(
    pipeline: Pipeline,
    seed: str,
    *,
    ranges: int,
    tables: int,
    bulk: int = 0,
) -> Outcome:
    """Write, take snapshots, capture, merge and compare; the arguments are those of `run`.

    Raises:
        WrongError: A table differs, or is refused for a reason that is not documented.
    """
    random, outcome = Random(seed), Outcome()
    database = pipeline.database
    pipeline.on_table_error = OnTableError.QUARANTINE
    loader = Loader(pipeline, Random(f"{seed} snapshots"), bulk=bulk)
    with (
        closing(Writer(database, random, tables=tables, bulk=bulk, logged=False)) as writer,
        noted(pipeline, writer, seed),
    ):
        writer.work(random.randint(5, 40))
        writer.begin_log()
        if random.random() < 0.5:
            # The new file says which GTIDs precede it: staged positions have them.
            flush_log(database.server)
        pipeline.at = pipeline.end()
        for _ in range(ranges):
            writer.log.append(f"-- range {pipeline.next_sequence}")
            _write_and_load(writer, loader, random)
            _check(pipeline, writer, loader, outcome)
        _settle(pipeline, writer, loader, outcome)
        outcome.statements = len(writer.log)
    entries = (entry for manifest in pipeline.manifests for entry in manifest.tables)
    outcome.changes = sum(part.rows for entry in entries for part in entry.parts)
    outcome.loaded, outcome.snapshots = loader.rows, loader.snapshots
    return outcome


def _write_and_load(writer: Writer, loader: Loader, random: Random) -> None:
    """Read what needs it while the writer works; now and then a live table too."""
    tables = writer.tables()
    wanted = loader.needed(tables)
    if tables and random.random() < 0.3:
        wanted.add(random.choice(tables))
    steps = random.randint(5, 40)
    failures: list[BaseException] = []

    def write() -> None:
        try:
            writer.work(steps)
        except BaseException as error:  # noqa: BLE001  Raised below.
            failures.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for table in sorted(wanted):
            loader.load(table)
    finally:
        thread.join()
    if failures:
        raise failures[0]


def _settle(pipeline: Pipeline, writer: Writer, loader: Loader, outcome: Outcome) -> None:
    """Load what is left, while nobody writes.

    Raises:
        WrongError: A table is not live in the end, for a reason that a snapshot should end.
    """
    writer.create_quiet(_QUIET)
    held: dict[str, str] = {}
    for _ in range(_QUIET_ROUNDS_MAX):
        for table in sorted(loader.needed(writer.tables())):
            loader.load(table)
        writer.write_quiet(_QUIET)
        held = _check(pipeline, writer, loader, outcome)
        if not held:
            return
    for table, reason in held.items():
        if table not in loader.refused and not re.search(LASTING, reason):
            raise WrongError(f"{table} is not live after its snapshots: {reason}")


def _check(pipeline: Pipeline, writer: Writer, loader: Loader, outcome: Outcome) -> dict[str, str]:
    """Capture, merge and compare; return the tables that are not merged, and why."""
    pipeline.capture()
    report = pipeline.workplace.try_merge(
        initial_load="snapshot", table_options=pipeline.table_options
    )
    held = dict[str, str]()
    for each in report.tables:
        table = each.table.partition(".")[2]
        if each.missing_rows:
            raise WrongError(f"{table} lacked {each.missing_rows} rows")
        if why := each.error or (each.reason if each.status != "merged" else ""):
            # Why it is stale, and why its snapshot does not end that.
            held[table] = f"{why}; {each.snapshot}"
            outcome.refused["not merged yet" if each.error is None else "failed"] += 1
        if "not loaded" in each.snapshot or each.error is not None:
            # What fails in every merge a reload ends, too; nothing takes its snapshot unasked.
            loader.again.add(table)
    tables = set(writer.tables())
    wrong = list(find_differences(pipeline, but=held.keys() | loader.needed(tables)))
    if wrong:
        raise WrongError("\n".join(wrong))
    outcome.equal += len(tables - held.keys())
    return {table: why for table, why in held.items() if table in tables}
