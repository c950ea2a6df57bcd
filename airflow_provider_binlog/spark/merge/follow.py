"""Merge whatever is staged meanwhile, in one job: a loop over merges."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from statistics import median

from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.spark.job.options import Report, TableReport
from airflow_provider_binlog.spark.merge.run import Finished
from airflow_provider_binlog.spark.staged.files import SourceFiles
from airflow_provider_binlog.staging.paths import manifest_path, read_manifests

# How often the next manifest is looked for.
_POLL_SECONDS = 0.2
# A line for what was merged meanwhile.
_LINE_SECONDS = 60


def follow(
    merge: Callable[[Finished], Report],
    files: SourceFiles,
    *,
    seconds: float,
    show: Callable[[str], object],
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], object] = time.sleep,
) -> Report:
    """Merge what is staged, and again for each manifest that is committed within these seconds.

    Shows a line each minute, and one for a table that a merge leaves otherwise than the one before.
    Returns the report of the last merge, with the rows of all of them. A table that failed is tried
    again by the next merge.

    Raises:
        BinlogError: As `merge`; what was merged before stays.
    """
    until = clock() + seconds
    followed = _Followed(show, clock)
    report = followed.add(merge(_ignore), [])
    while True:
        following = report.through + 1
        if files.exists(manifest_path(following)):
            merged = merge(_ignore)
            manifests = read_manifests(files, range(following, merged.through + 1))
            report = followed.add(merged, manifests)
        elif clock() >= until:
            return report
        else:
            sleep(_POLL_SECONDS)


def _ignore(*_: object) -> None:
    return None


class _Followed:
    """Adds up the reports of consecutive merges, and shows what people want to know of them."""

    def __init__(self, show: Callable[[str], object], clock: Callable[[], float]) -> None:
        self._show = show
        self._clock = clock
        self._tables: dict[str, TableReport] = {}
        self._shown = clock()
        self._forget()

    def add(self, report: Report, manifests: Sequence[Manifest]) -> Report:
        """Return a report with the rows of those before; `manifests` are what it merged."""
        for table in report.tables:
            before = self._tables.get(table.table)
            if table.status != (before.status if before else "current") and not table.is_merged:
                self._show(f"{table.table}: {table.status}: {table.error or table.reason}")
            self._rows += sum(count or 0 for count in table.rows.values())
            self._tables[table.table] = _sum(before, table)
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
        }
    )


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
