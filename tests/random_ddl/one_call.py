"""Runs of the one-call DAG in this process, and what happens between two of its tasks.

At every merge each captured table that the server had at the stop of the log equals what SELECT
returned there, or the report names it: `loading`, `stale` or failed, with the reason.
"""

from __future__ import annotations

import json
import os
import re
from contextlib import contextmanager, suppress
from functools import cached_property
from typing import TYPE_CHECKING, Any
from unittest.mock import patch

from airflow.sdk.exceptions import AirflowFailException, AirflowSkipException

from airflow_provider_binlog import BinlogSource, binlog_to_lake_dag
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.operators import extract
from airflow_provider_binlog.operators.merge import merge_arguments
from airflow_provider_binlog.sensors import binlog
from airflow_provider_binlog.snapshot import take
from airflow_provider_binlog.snapshot.chunk import read_chunk
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from tests.random_ddl.comparison import select_all
from tests.random_ddl.loading import LASTING
from tests.random_ddl.run import WrongError
from tests.support.extract_worker import context
from tests.support.staged import manifests_after
from tests.support.stores import Checkpoints, open_store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from airflow.sdk import DAG

    from tests.fixtures.mysql import Database
    from tests.random_ddl.lakes import TestedLake
    from tests.support.compare import Table

SEAMS = ("plan", "snapshot", "chunk", "stage", "merge", "checkpoint")
"""Before which task something happens; `chunk`: after the first chunk of its table was read."""

_TRIES_MAX = 2


class OneCall:
    """The tasks of `binlog_to_lake_dag`, one after another.

    Attributes:
        held: The tables that the last merge named, with the reason.
        returned: What the tasks of the last run returned, and what they raised.
        options: Of tables.
        account: More fields of the connection, by name.
        runs: How many were not skipped.
        equal: Comparisons of a table that held.
    """

    def __init__(
        self,
        databases: Sequence[Database],
        lake: TestedLake,
        *,
        source: str,
        staging: str,
        chunk_bytes: int,
        account: Mapping[str, Any] | None = None,
        select: Callable[[Database], Iterable[tuple[Table, list[dict[str, Any]]]]] = select_all,
    ) -> None:
        """Create the tasks.

        Args:
            databases: Those that are captured.
            lake: Where they are merged into.
            source: Its name.
            staging: Where it is staged.
            chunk_bytes: Of snapshots.
            account: More fields of the connection, by name.
            select: Returns what the lake should hold of a database.
        """
        self.held: dict[str, str] = {}
        self.returned: list[Any] = []
        self.options: dict[str, Any] | None = None
        self.runs = self.equal = 0
        self._databases, self._lake = databases, lake
        self.account, self._select = dict(account or {}), select
        self._variables = Checkpoints()
        self._staging, self._source, self._chunk_bytes = staging, source, chunk_bytes

    @cached_property
    def _dag(self) -> DAG:
        return binlog_to_lake_dag(
            "shop",
            BinlogSource(self._source, start="now"),
            schedule=None,
            tables=[f"{database.name}.*" for database in self._databases],
            staging_path=self._staging,
            snapshot={"chunk_bytes": self._chunk_bytes},
            options=self.options,
            **self._lake.target,
        )

    def configure(self, options: dict[str, Any]) -> None:
        """Change the options of tables, as the author of the DAG does."""
        self.options = options
        vars(self).pop("_dag", None)

    def run(self, between: Callable[[str, str], None] = lambda *_: None) -> bool:
        """Run the tasks, `between(seam, table)` before each; return whether there was work.

        The table is empty but for the seam `chunk`.

        Raises:
            WrongError: A table is neither equal nor named.
        """
        self.returned.clear()
        with self._surrounded(between), suppress(AirflowSkipException):
            sensor = self._task("changes")
            # Airflow renders the templates of both; no run has a conf here.
            sensor.plan = {**sensor.plan, "reload": []}
            changes = sensor.poke(self._context()).xcom_value
            self.runs += 1
            between("plan", "")
            plan = self._task("plan")
            plan.reload = []
            planned = self._note(plan.execute(self._context()))
            between("snapshot", "")
            for arguments in planned:
                self._read(arguments)
            between("stage", "")
            stage = self._task("stage")
            stage.start = changes
            staged = self._note(stage.execute(self._context()))
            selected = [each for database in self._databases for each in self._select(database)]
            between("merge", "")
            succeeds = self._merge(staged, selected)
            between("checkpoint", "")
            if succeeds:
                checkpoint = self._task("checkpoint")
                checkpoint.staged = staged
                checkpoint.execute(self._context())
            return True
        return False

    def settle(self, runs_max: int = 3) -> None:
        """Run until no table is named that a reload helps, while nobody writes.

        Raises:
            WrongError: One is named after so many runs.
        """
        for _ in range(runs_max):
            if not self.run():
                break
        if wrong := self._unsettled():
            raise WrongError(f"named after {runs_max} runs: {wrong}")

    def _unsettled(self) -> dict[str, str]:
        return {table: why for table, why in self.held.items() if not re.search(LASTING, why)}

    def _task(self, name: str) -> Any:
        return self._dag.get_task(name)

    def _context(self) -> Any:
        return context(f"run {self.runs}")

    def _read(self, arguments: dict[str, Any]) -> None:
        """Run a mapped task; one that fails stops nothing."""
        for _ in range(_TRIES_MAX):
            try:
                self._note(self._task("snapshot").unmap(arguments).execute(self._context()))
            except AirflowFailException as error:
                self._note(str(error))
                return
            except BinlogError as error:
                self._note(str(error))
                if not error.retryable:
                    raise
            else:
                return

    def _note(self, value: Any) -> Any:
        self.returned.append(value)
        return value

    def _merge(self, staged: dict[str, Any], selected: Sequence[Any]) -> bool:
        arguments = merge_arguments(
            source=staged["source"],
            staging_path=self._staging,
            through=staged["last_sequence"],
            options=self.options,
            **self._lake.target,
        )
        report = self._lake.merge(arguments)
        self._note(report.to_json())
        self.held = {
            each.table.partition(".")[
                2
            ]: f"{each.status}: {each.error or each.reason}; {each.snapshot}"
            for each in report.tables
            if each.error or each.hold
        }
        manifests = list(
            manifests_after(ManifestLog(open_store(self._staging), staged["source"]), 0)
        )
        wrong = list(self._lake.find_differences(manifests, selected, but=self.held))
        if wrong:
            raise WrongError("\n".join(wrong))
        there = {table.name for table, _ in selected}
        self.held = {table: why for table, why in self.held.items() if table in there}
        self.equal += len(there - self.held.keys())
        return not report.failed

    @contextmanager
    def _surrounded(self, between: Callable[[str, str], None]) -> Iterator[None]:
        """Set what Airflow would, and have each chunk followed by `between`."""
        server = self._databases[0].server
        fields = {"conn_type": "binlog", "host": server.host, "port": server.port, "login": "root"}
        extra = {"ssl_mode": "disabled", **self.account.get("extra", {})}
        connection = json.dumps(fields | self.account | {"extra": extra})

        def read(plan: Any, number: int, *given: Any) -> Any:
            chunk = read_chunk(plan, number, *given)
            if number == 0:
                between("chunk", plan.table)
            return chunk

        variables = self._variables
        with (
            patch.dict(os.environ, {"AIRFLOW_CONN_BINLOG_DEFAULT": connection}),
            patch.object(extract, "AirflowVariableStore", lambda: variables),
            patch.object(binlog, "AirflowVariableStore", lambda: variables),
            patch.object(take, "read_chunk", read),
        ):
            yield
