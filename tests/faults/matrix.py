"""The matrix: which faults there are, and which tests make each of them happen, and where.

A test that is a cell has the mark `fault`, with the row's name and the columns as words:

    @pytest.mark.fault("dump-killed", servers="mysql97 mariadb118", stores="file")

The marks are read from the source, so that the table of the docs and what `make faults` runs are
the same list.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
MARK = "fault"
COLUMNS = ("servers", "lakes", "stores")


@dataclass(frozen=True)
class Row:
    """A fault, and what follows from it."""

    title: str
    outcome: str


RETRY = "retried"
GROUPS: Mapping[str, Mapping[str, Row]] = {
    "The server": {
        "cut": Row("connection cut after any byte, in SQL and in the stream", RETRY),
        "stalled": Row("connection silent, or one byte at a time", f"{RETRY} after `read_timeout`"),
        "throttled": Row("slow connection", "the same rows"),
        "server-frozen": Row("server stopped by SIGSTOP", f"{RETRY} after `read_timeout`"),
        "server-killed": Row("server killed while it is read, and started again", RETRY),
        "server-restarted": Row("server restarted while it is read", RETRY),
        "server-full": Row("the disk of the log is full", "what was committed is staged"),
        "server-read-only": Row("server becomes read-only", "the same rows"),
        "max-connections": Row("`max_connections` is reached", RETRY),
        "dump-killed": Row("`KILL` on our dump thread", RETRY),
        "id-taken": Row(
            "another replica takes our server id (MySQL distinguishes them by uuid)", RETRY
        ),
        "login": Row(
            "a password of `caching_sha2_password`, and no TLS",
            "refused until the server's key is known",
        ),
        "failover": Row("failover to a replica, by GTID", "the rest is staged once"),
        "failover-refused": Row("another server without GTIDs, or not chosen", "refused"),
        "another-server": Row("the address leads to another server meanwhile", RETRY),
    },
    "The log": {
        "restored": Row(
            "server restored from a backup, or its log reset", "refused; reload from snapshots"
        ),
        "renamed": Row("base name of the log changed", "refused; reload from snapshots"),
        "purged": Row("log purged at the checkpoint", "refused; reload from snapshots"),
        "purged-planning": Row("log purged while a range is planned", "refused, or what is staged"),
        "purged-reading": Row("log purged while it is read", "the same rows, or refused"),
        "vanished": Row("file of the log removed from the disk", "refused until it is back"),
        "truncated": Row("file of the log truncated", "refused until it is restored"),
        "flipped": Row(
            "a bit of the log flipped", "refused until it is restored; reload from snapshots"
        ),
        "rotated": Row("a file per transaction", "the same rows"),
        "many-files": Row("10,000 files in one range", "the same rows"),
        "large-log": Row(
            "a file of the log of more than 4 GiB, a transaction of 1 GiB",
            "the same rows, in bounded memory",
        ),
        "many-tables": Row("20,000 tables of which 20 change", "the same rows"),
    },
    "Settings": {
        "settings": Row(
            "format of images, metadata, checksum, compression, time zone, character set and "
            "`sql_mode` switched within the range",
            "the same rows",
        ),
        "statement-format": Row("`binlog_format` switched within the range", "named; reload"),
    },
    "Runs": {
        "killed": Row("task killed at any step", RETRY),
        "backlog-killed": Row("a backlog's tasks and the checkpoint killed at any step", RETRY),
        "snapshot-killed": Row("snapshot killed at any step", f"{RETRY}; read on"),
        "snapshot-cut": Row("connection cut while a snapshot is read", f"{RETRY}; read on"),
        "task-frozen": Row("task stopped by SIGSTOP for longer than each timeout", "the same rows"),
        "memory": Row("too little memory for a task", f"{RETRY}, with more memory"),
        "memory-killed": Row(
            "task killed for the memory that its control group takes", f"{RETRY}, with more memory"
        ),
        "two-runs": Row("two runs at once", "one commits"),
        "zombie": Row("a run that wakes after its successors finished", "changes nothing"),
    },
    "The store": {
        "store-500": Row("500, 503 and connections cut, for one request of each kind", RETRY),
        "store-down": Row("store down for long", RETRY),
        "store-timeout": Row("store does not answer", f"{RETRY} after the store's timeouts"),
        "store-slow": Row("store slow", "the same rows"),
        "store-answer-lost": Row("written, but the answer is lost", "the same rows"),
        "store-partial": Row("upload cut in the middle", RETRY),
        "store-lag": Row("list that lags", "the same rows"),
        "store-denied": Row("permission lost", "refused until it is back"),
        "store-full": Row("disk of the store full", RETRY),
        "part-damaged": Row("part deleted, truncated or foreign", "its table waits for the part"),
        "manifest-damaged": Row("manifest deleted, cut or edited", "refused until it is back"),
    },
    "Airflow": {
        "variable-lost": Row("Variable lost", "refused; rebuilt from the manifests"),
        "variable-nonsense": Row("Variable overwritten", "refused; rebuilt from the manifests"),
        "xcom-lost": Row("XCom of the extract lost", "named; the next run continues"),
        "task-cleared": Row("task of an old run cleared", "changes nothing"),
        "airflow-killed": Row("Airflow killed within a run, and started again", RETRY),
        "backfill": Row("run of an old interval, run deleted", "as any run"),
    },
    "Clusters and catalogs": {
        "cluster": Row(
            "a standalone cluster whose processes share nothing with the tasks but S3",
            "the same rows",
        ),
        "cluster-mode": Row(
            "deploy mode `cluster` on a standalone cluster", "refused by `spark-submit`, for Python"
        ),
        "catalogs": Row(
            "Iceberg in a REST server and by JDBC, Delta in a Hive metastore", "the same rows"
        ),
    },
    "Spark": {
        "merge-killed": Row("driver killed before and after its commit", RETRY),
        "merge-memory": Row("too little memory for a merge", f"{RETRY}, with more memory"),
        "merge-still-runs": Row(
            "merge task ended by its timeout, while its Spark job still runs", "the same rows"
        ),
        "executor-killed": Row("executors killed while they run a task", "the same rows"),
        "worker-killed": Row("worker of a standalone cluster killed", "the same rows"),
        "catalog-down": Row("catalog killed, or its connection cut", RETRY),
        "reload-killed": Row("reload killed before and after its commit", RETRY),
        "conflict": Row("two merges, or two reloads, at once", "one commits; retried"),
        "both-merges": Row(
            "two merges at once of a multiset, or a history, that both commit",
            "refused, or named in Iceberg, and reloaded",
        ),
        "compaction": Row("lake table compacted at the moment of a commit", f"merged, or {RETRY}"),
        "many-manifests": Row("3,000 manifests in one merge", "the same rows"),
        "merge-zombie": Row("delayed merge of fewer manifests", "noticed by the next merge"),
        "lake-store": Row(
            "store of the lake and of what is staged fails, loses answers, denies access",
            f"{RETRY}; refused while denied",
        ),
        "database-killed": Row("database of the tables killed within a commit", RETRY),
        "database-cut": Row("sessions of the merge ended by the database of the tables", RETRY),
        "lake-full": Row("disk of the lake full", RETRY),
        "scratch-full": Row("Spark's scratch disk full", RETRY),
        "lake-dropped": Row("lake table dropped", "rebuilt, or waits for a reload"),
        "lake-altered": Row("lake table altered or written by hand", "named; reload"),
        "lake-restored": Row("lake table restored, compacted, expired", "merged again"),
    },
}
ROWS = {name: row for group in GROUPS.values() for name, row in group.items()}


@dataclass(frozen=True, order=True)
class Cell:
    """A test of one row.

    Attributes:
        row: A name of `ROWS`.
        test: The test's path and name, as pytest takes them.
        columns: By name: the words of the column that the test covers.
    """

    row: str
    test: str
    columns: tuple[tuple[str, ...], ...]


def find_cells(folder: Path = TESTS) -> list[Cell]:
    """Return the cells of all tests below a folder, sorted by the matrix's rows."""
    order = list(ROWS)
    found = [cell for path in sorted(folder.rglob("test_*.py")) for cell in _cells_of(path)]
    return sorted(found, key=lambda cell: (order.index(cell.row), cell.test))


def _cells_of(path: Path) -> Iterator[Cell]:
    text = path.read_text(encoding="utf-8")
    if f"mark.{MARK}(" not in text:
        return
    for node in ast.parse(text).body:
        if isinstance(node, ast.FunctionDef):
            test = f"{path.relative_to(TESTS.parent)}::{node.name}"
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func).endswith(f"mark.{MARK}"):
                    yield _cell(test, mark)


def _cell(test: str, mark: ast.Call) -> Cell:
    (row,) = map(ast.literal_eval, mark.args)
    given = {str(each.arg): str(ast.literal_eval(each.value)) for each in mark.keywords}
    if row not in ROWS or not given.keys() <= set(COLUMNS):
        message = f"{test}: no such row or column: {row} {given}"
        raise ValueError(message)
    return Cell(row, test, tuple(tuple(given.get(name, "").split()) for name in COLUMNS))


SERVERS = {
    "mysql97": "MySQL 9.7",
    "mysql80": "MySQL 8.0",
    "mariadb1011": "MariaDB 10.11",
    "mariadb118": "MariaDB 11.8",
}


def table(cells: list[Cell]) -> str:
    """Return the matrix as a table of Markdown for each group."""
    parts = []
    for group, rows in GROUPS.items():
        lines = [
            f"### {group}",
            "",
            "| fault | what follows | servers | lakes | stores | tests |",
            "|---|---|---|---|---|---|",
        ]
        for name, row in rows.items():
            own = [cell for cell in cells if cell.row == name]
            columns = [_column(own, index) for index in range(len(COLUMNS))]
            tests = "<br>".join(f"`{cell.test.partition('::')[2]}`" for cell in own)
            lines.append(f"| {row.title} | {row.outcome} | {' | '.join(columns)} | {tests} |")
        parts.append("\n".join(lines))
    return "\n\n".join(parts) + "\n"


def _column(cells: list[Cell], index: int) -> str:
    words = {word for cell in cells for word in cell.columns[index]}
    known = [name for name in SERVERS if name in words]
    return ", ".join([*(SERVERS[name] for name in known), *sorted(words - set(known))])
