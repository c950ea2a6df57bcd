"""`sync`: the tables of a server in lake tables on this machine, by one command and no DAG.

It does once what the tasks of `binlog_to_lake` do in each run, with a Spark of this environment.
Everything is below one folder, so the next call continues: what was logged meanwhile is merged.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from pathlib import Path
from typing import Any

from airflow_provider_binlog.checkpoint import Checkpoint, advance, checkpoint_key, load
from airflow_provider_binlog.cli.output import print_records, show_progress
from airflow_provider_binlog.cli.source import read_settings
from airflow_provider_binlog.cli.staging import Notes, choose_readable, range_settings, take
from airflow_provider_binlog.errors import (
    BinlogError,
    ConfigurationError,
    ObjectMissingError,
    UnknownMergeError,
)
from airflow_provider_binlog.names import join_table_name
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sources.binlog_files import reach_plainly
from airflow_provider_binlog.sources.findings import list_findings
from airflow_provider_binlog.sources.lakes import find_needed, load_lakes
from airflow_provider_binlog.sources.next_range import find_next_range, stage
from airflow_provider_binlog.sources.server_log import ServerLog
from airflow_provider_binlog.sources.settings import ConnectionSettings
from airflow_provider_binlog.spark.job.options import (
    APPLICATION,
    build_py_files,
    find_error,
    parse_arguments,
)
from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
from airflow_provider_binlog.spark.job.submit import (
    QUIET,
    find_reason,
    find_spark_submit,
    is_noise,
)
from airflow_provider_binlog.spark.merge.progress import read_start
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.status.tables import State, read_tables
from airflow_provider_binlog.stored_json import utc_now
from airflow_provider_binlog.transport.server import information_schema, queries, setup
from airflow_provider_binlog.transport.server.setup import Level

_NAME = "sync"
"""Names the source, whose staged files no other source shares."""

_OWN = "_binlog"
"""Folder of what is staged, beside the tables; no database's folder begins with an underscore."""

_CATALOG = "lake"
_SPARK = "4.1"
_PACKAGES = {
    "delta": "io.delta:delta-spark_4.1_2.13:4.4.0",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime-4.1_2.13:1.12.0",
}
_JARS = ("spark.jars", "spark.jars.packages")


def sync(arguments: argparse.Namespace) -> int:
    """Bring a server's tables into a folder, or what changed since the last call.

    Returns 1 if a table is not merged, or could not be read.

    Raises:
        ConfigurationError: There is no Spark or Java, or an argument cannot be used.
        BinlogError: The server, or the files, cannot be used.
    """
    lake = Lake.open(arguments)
    # Before anything is read, which may take hours.
    command = spark_command(lake)
    settings = read_settings(arguments.source)
    tables, exclude = arguments.tables or ("*.*",), arguments.exclude or ()
    check_server(settings, tables, exclude)
    with closing(ServerLog(settings)) as log:
        failed = _stage(lake, log, settings, tables, exclude)
    rows = merge(lake, command)
    move_checkpoint(lake)
    records = list(lake.list_tables(rows))
    print_records(records, arguments.output)
    for name, reason in failed.items():
        sys.stderr.write(f"{join_table_name(name)} was not read: {reason}\n")
    merged = (State.LIVE, State.SUSPECT)
    return 1 if failed or any(record["state"] not in merged for record in records) else 0


@dataclass(frozen=True)
class Lake:
    """A folder with lake tables, and with what is staged for them.

    Attributes:
        folder: Where it is on this machine.
        format: `delta` or `iceberg`.
        conf: Settings of Spark that the user chose.
        store: The folder of what is staged.
    """

    folder: Path
    format: str
    conf: Mapping[str, str]
    store: ObjectStore

    @classmethod
    def open(cls, arguments: argparse.Namespace) -> Lake:
        """Make the folder, if there is none.

        Raises:
            ConfigurationError: It cannot be made, or has tables of another format.
        """
        folder = Path(arguments.to).expanduser().absolute()
        staging = folder / _OWN
        try:
            staging.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"the folder cannot be made: {error}") from error
        conf = dict(map(_read_setting, arguments.conf or ()))
        store = ObjectStore(*reach_plainly(_to_uri(staging)))
        lake = cls(folder, arguments.format, conf, store)
        for progress in load_lakes(store, _NAME):
            if progress.lake != f"{lake.format} {lake.location}":
                raise ConfigurationError(
                    "the folder has tables of another format, or was moved: choose another one",
                    found=progress.lake,
                )
        return lake

    @property
    def location(self) -> str:
        """Where the tables are, as a merge names it."""
        return _CATALOG if self.format == "iceberg" else _to_uri(self.folder)

    @property
    def files(self) -> StoredFiles:
        """The staged files."""
        return StoredFiles(self.store, _NAME)

    @property
    def arguments(self) -> list[str]:
        """Arguments of the merge."""
        return [
            *("--staging", _to_uri(self.folder / _OWN), "--source", _NAME),
            *("--format", self.format, "--lake", self.location),
        ]

    def list_tables(self, rows: Mapping[str, Mapping[str, int | None]]) -> Iterator[dict[str, Any]]:
        """Yield a record for each table, with what the merge did to it."""
        for table in read_tables([*load_lakes(self.store, _NAME)], ()):
            counts = rows.get(".".join(table.name), {})
            done = {kind: counts.get(kind) or 0 for kind in ("inserted", "updated", "deleted")}
            yield {"table": table.text, "state": table.state.value, **done, "reason": table.reason}


class FileCheckpoints:
    """Checkpoints in files of a store; in place of Airflow's Variables."""

    def __init__(self, store: ObjectStore) -> None:
        self._store = store

    def get(self, key: str) -> str | None:
        """Return the stored value, or None."""
        try:
            return self._store.read(f"{key}.json").decode()
        except ObjectMissingError:
            return None

    def set(self, key: str, value: str) -> None:
        """Store `value`."""
        self._store.write(f"{key}.json", value.encode())


def _to_uri(path: Path) -> str:
    # Neither fsspec nor Hadoop decodes what `Path.as_uri` encodes.
    return f"file://{path}"


def _read_setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not name or not equals:
        raise ConfigurationError("--conf takes NAME=VALUE", given=text)
    return name, value


def check_server(
    settings: ConnectionSettings, tables: Sequence[str], exclude: Sequence[str]
) -> None:
    """Refuse a server that cannot be captured; name the tables that cannot be.

    Raises:
        ServerSetupError, AccessDeniedError: Says what to change.
    """
    findings = list_findings(settings, tables, exclude)
    with closing(settings.connect()) as connection:
        of = queries.server_version(connection)
    setup.raise_errors((finding for finding in findings if not finding.tables), of)
    for finding in findings:
        if finding.level is Level.ERROR or (finding.level is Level.WARNING and finding.tables):
            shown = ", ".join(finding.tables[:20])
            sys.stderr.write(f"{finding.level.value}: {finding} ({shown})\n")


def _stage(
    lake: Lake,
    log: ServerLog,
    settings: ConnectionSettings,
    tables: Sequence[str],
    exclude: Sequence[str],
) -> dict[TableName, str]:
    """Stage snapshots of the tables that need one, and the log up to now.

    Returns the tables that could not be read, and why.
    """
    checkpoints, request = FileCheckpoints(lake.store), range_settings(_NAME, tables, exclude)
    # First, so that nothing is missed that is logged while the snapshots are taken.
    checkpoint, _ = find_next_range(
        log, lake.store, checkpoints, request, start="now", logger=Notes()
    )
    failed = _take_snapshots(lake, settings, tables, exclude, checkpoint)
    with show_progress("log") as show:
        _, log_range = find_next_range(
            log,
            lake.store,
            checkpoints,
            request,
            start=None,
            logger=Notes(),
            on_progress=show,
        )
        stage(log_range, log, lake.store)
    return failed


def _take_snapshots(
    lake: Lake,
    settings: ConnectionSettings,
    tables: Sequence[str],
    exclude: Sequence[str],
    checkpoint: Checkpoint,
) -> dict[TableName, str]:
    with closing(settings.connect()) as connection:
        kinds = information_schema.list_tables(connection)
    chosen = choose_readable(kinds, tables, exclude)
    progress = next(load_lakes(lake.store, _NAME), None)
    needed, _ = find_needed(lake.store, _NAME, chosen, progress, now=datetime.now(UTC))
    failed = {}
    for name in needed:
        try:
            # A call that was killed is continued; one after the next manifest reads again.
            take(settings, lake.store, name, source=_NAME, run=f"sync after {checkpoint.sequence}")
        except BinlogError as error:
            failed[name] = str(error)
    return failed


def merge(lake: Lake, command: Sequence[str]) -> dict[str, Mapping[str, int | None]]:
    """Merge what is staged, if anything is; return rows by what was done to them, by table.

    Raises:
        MergeError: Spark failed.
    """
    options, _ = parse_arguments(lake.arguments)
    if read_start(lake.files, options).is_idle:
        return {}
    with tempfile.TemporaryDirectory(prefix="binlog-sync-") as folder:
        report = Path(folder) / "report.json"
        code, output = _submit(lake, command, folder, report)
        if not report.exists():
            raise UnknownMergeError(f"spark-submit failed: {find_reason(output)}", code=code)
        value = json.loads(report.read_text())
    if (error := find_error(value)) is not None:
        raise error
    return {table["table"]: table["rows"] for table in value["tables"]}


def _submit(lake: Lake, command: Sequence[str], folder: str, report: Path) -> tuple[int, list[str]]:
    """Run the job, and print its lines; return its exit code, and all of its output."""
    job = ["--py-files", str(build_py_files(folder)), str(APPLICATION), *lake.arguments]
    python = {"PYSPARK_PYTHON": sys.executable, "PYSPARK_DRIVER_PYTHON": sys.executable}
    output = []
    process = subprocess.Popen(  # noqa: S603  Its arguments are ours.
        [*command, *job, "--report", report.as_uri()],
        env=os.environ | python,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    sys.stderr.write("merge: Spark starts\n")
    try:
        for line in process.stdout or ():
            output.append(line)
            if not is_noise(line.strip()):
                sys.stderr.write(f"merge: {line}")
    finally:
        process.terminate()
    return process.wait(), output


def spark_command(lake: Lake) -> list[str]:
    """Return the start of the command that runs a job.

    Raises:
        ConfigurationError: This machine lacks what it takes.
    """
    program = find_spark_submit() or shutil.which("spark-submit")
    if program is None:
        raise ConfigurationError(
            "there is no Spark: pip install 'airflow-provider-binlog[local-spark]', or set "
            "SPARK_HOME and PATH"
        )
    if not os.environ.get("JAVA_HOME") and shutil.which("java") is None:
        raise ConfigurationError("Spark takes Java 17 or newer: install it, or set JAVA_HOME")
    settings = [["--conf", f"{name}={value}"] for name, value in spark_conf(lake).items()]
    return [program, "--master", "local[*]", *chain.from_iterable(settings)]


def spark_conf(lake: Lake) -> dict[str, str]:
    """Return the settings of a job: format, jars, and those of the user.

    Raises:
        ConfigurationError: No jars are known for the Spark that is installed.
    """
    own = iceberg_conf(_CATALOG, _to_uri(lake.folder)) if lake.format == "iceberg" else delta_conf()
    if lake.conf.keys().isdisjoint(_JARS):
        own["spark.jars.packages"] = _PACKAGES[lake.format]
        version = _find_version()
        if not version.startswith(f"{_SPARK}."):
            raise ConfigurationError(
                f"the jars of {lake.format} that are known here are for Spark {_SPARK}: install "
                f"'pyspark=={_SPARK}.*', or name others by --conf spark.jars.packages=...",
                found=version or "another Spark",
            )
    return {**QUIET, **own, **lake.conf}


def _find_version() -> str:
    """Return the version of the Spark that is installed here; empty if it is none of Python's."""
    try:
        return "" if os.environ.get("SPARK_HOME") else importlib.metadata.version("pyspark")
    except importlib.metadata.PackageNotFoundError:
        return ""


def move_checkpoint(lake: Lake) -> None:
    """Move the checkpoint past what is staged, which is merged."""
    checkpoints, latest = FileCheckpoints(lake.store), ManifestLog(lake.store, _NAME).latest()
    saved = load(checkpoints, checkpoint_key(_NAME))
    if latest is None or saved is None or latest.sequence <= saved.sequence:
        return
    new = Checkpoint.covering(latest, saved_at=utc_now(), saved_by=_NAME)
    advance(checkpoints, checkpoint_key(_NAME), expected=saved, new=new)
