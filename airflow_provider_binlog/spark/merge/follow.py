"""Merge whatever is staged meanwhile, in one job: a loop over merges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Collection, Iterable
from contextlib import suppress
from dataclasses import fields, replace
from statistics import median

from airflow_provider_binlog.errors import BinlogError, StoreUnavailableError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.spark.job.options import Report, TableReport
from airflow_provider_binlog.spark.merge.run import Merge
from airflow_provider_binlog.spark.staged.files import SourceFiles
from airflow_provider_binlog.staging.paths import manifest_path, read_manifests

# How often the next manifest is looked for, and how long the store may fail.
_POLL_SECONDS = 0.2
_STORE_SECONDS = 60
# A line for what was merged meanwhile.
_LINE_SECONDS = 60
# Tables that failed are tried again after that, then after twice as long, and so on.
_AGAIN_SECONDS, _AGAIN_SECONDS_MAX = 5, 600


def follow(
    merge: Merge,
    files: SourceFiles,
    *,
    seconds: float,
    show: Callable[[str], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Report:
    """Merge what is staged, and again for each manifest that is committed within these seconds.

    Tables that failed are left out, and tried again after 5 seconds, 10, 20, at most ten minutes,
    and at the end: all that was staged since is read for them. Shows a line each minute, and one
    for a table that is not merged any more. Returns the report of the last merge, with the rows of
    all of them.

    Raises:
        BinlogError: As `merge`, or the store fails for a minute; what was merged before stays.
    """
    until, failing_since = clock() + seconds, None
    followed = _Followed(show, clock)
    report = followed.add(merge(_ignore), [])
    while True:
        is_over = clock() >= until
        waiting = set() if is_over else followed.find_waiting()
        following, merged = report.through + 1, None
        try:
            if waiting < followed.failed or files.exists(manifest_path(following)):
                merged = merge(_ignore, waiting)
            failing_since = None
        except StoreUnavailableError:
            failing_since = clock() if failing_since is None else failing_since
            if is_over or clock() >= failing_since + _STORE_SECONDS:
                raise
        if merged is not None:
            manifests: list[Manifest] = []
            with suppress(BinlogError):
                manifests = read_manifests(files, range(following, merged.through + 1))
            report = followed.add(merged, manifests, waiting)
        elif not is_over:
            sleep(_POLL_SECONDS)
        if is_over:
            return report


def _ignore(*_: object) -> None:
    return None


class _Followed:
    """Adds up the reports of consecutive merges, and shows what people want to know of them."""

    def __init__(self, show: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._show = show
        self._clock = clock
        self._tables: dict[str, TableReport] = {}
        self._statuses: dict[str, str] = {}
        self.failed: set[str] = set()
        # When these are tried again, together: one may have been renamed to the other.
        self._again = self._wait = 0.0
        self._shown = clock()
        self._forget()

    def find_waiting(self) -> set[str]:
        """Return the tables that failed, and that are not to be tried yet."""
        return self.failed if self._clock() < self._again else set()

    def add(
        self, report: Report, manifests: Iterable[Manifest], waiting: Collection[str] = ()
    ) -> Report:
        """Return a report with the rows of those before.

        It merged `manifests`, without the tables that were `waiting`.
        """
        # What has no lake table is reported by each merge.
        self._tables = {name: table for name, table in self._tables.items() if table.target}
        for name in self.failed.difference(waiting, (table.table for table in report.tables)):
            # Another merge has merged it.
            self._tables[name] = replace(self._tables[name], error=None)
        failed = {table.table for table in report.tables if table.error and table.target}
        if failed:
            again = min(2 * self._wait, _AGAIN_SECONDS_MAX)
            self._wait = again if failed <= self.failed else _AGAIN_SECONDS
            self._again = self._clock() + self._wait
        self.failed = self.failed.intersection(waiting) | failed
        for table in report.tables:
            name, status = table.table, table.status
            if status not in ("merged", "current", self._statuses.get(name)):
                self._show(f"{name}: {status}: {table.error or table.reason}")
            self._statuses[name] = status
            self._rows += sum(count or 0 for count in table.rows.values())
            self._tables[name] = _sum(self._tables.get(name), table)
        self._merges += 1
        self._waits += _find_waits(manifests)
        if self._clock() >= self._shown + _LINE_SECONDS:
            self._show(self._line(report))
            self._forget()
            self._shown = self._clock()
        return replace(report, tables=list(self._tables.values()))

    def _forget(self) -> None:
        self._merges = self._rows = 0
        self._waits: list[float] = []

    def _line(self, report: Report) -> str:
        line = (
            f"merged up to manifest {report.through}: {self._rows:,} rows in {self._merges} merges"
        )
        if not self._waits:
            return line
        middle, most = median(self._waits), max(self._waits)
        return f"{line}, {middle:.1f} s after their commit (median; at most {most:.1f} s)"


def _sum(before: TableReport | None, table: TableReport) -> TableReport:
    """Return the report of a table with the rows of one before."""
    own = {field.name: getattr(table, field.name) for field in fields(TableReport)}
    if before is None:
        return TableReport(**own)
    rows = {**before.rows, **table.rows}
    for action in before.rows.keys() & table.rows.keys():
        earlier, later = before.rows[action], table.rows[action]
        rows[action] = None if earlier is None or later is None else earlier + later
    return TableReport(
        **own
        | {
            "is_merged": before.is_merged or table.is_merged,
            "applied_before": before.applied_before,
            "changes": dict(Counter(before.changes) + Counter(table.changes)),
            "rows": rows,
            "bytes": before.bytes + table.bytes,
            "seconds": before.seconds + table.seconds,
            "layout": table.layout or before.layout,
            "snapshot": table.snapshot or before.snapshot,
            "version": before.version if table.version is None else table.version,
            "missing_rows": _add(before.missing_rows, table.missing_rows),
        }
    )


def _add(earlier: int | None, later: int | None) -> int | None:
    """Return the sum of what is known."""
    return later if earlier is None else earlier + (later or 0)


def _find_waits(manifests: Iterable[Manifest]) -> list[float]:
    """Return how long ago the first and the last change of each manifest were committed."""
    now = time.time()
    waits = []
    for manifest in manifests:
        parts = [part for table in manifest.tables for part in table.parts]
        if parts:
            first = min(part.first_commit for part in parts)
            last = max(part.last_commit for part in parts)
            waits += [now - first / 1e6, now - last / 1e6]
    return waits
