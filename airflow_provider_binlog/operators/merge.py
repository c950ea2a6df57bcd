"""Merge staged changes into Delta, Iceberg or PostgreSQL, with a Spark job; read its report."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from tempfile import TemporaryDirectory
from types import MappingProxyType
from typing import Any

from airflow.sdk import Context
from airflow.sdk.definitions.xcom_arg import XComArg

from airflow_provider_binlog.hooks import lineage
from airflow_provider_binlog.hooks.binlog import read_postgres_settings
from airflow_provider_binlog.hooks.metrics import send_merged
from airflow_provider_binlog.hooks.object_storage import lake_location, open_store, spark_location
from airflow_provider_binlog.hooks.spark_submit import need_client
from airflow_provider_binlog.hooks.tasks import (
    add_to_aliases,
    fail_unless_retryable,
    pass_to_outlets,
    seconds_to_follow,
)
from airflow_provider_binlog.operators.arguments import read_globs, read_location, read_options
from airflow_provider_binlog.operators.links import SOURCE_LINKS
from airflow_provider_binlog.operators.merge_report import (
    describe_for_aliases,
    describe_for_asset,
    describe_merge,
    list_held,
    list_merged,
    list_warnings,
)
from airflow_provider_binlog.operators.spark_job import SparkJobOperator
from airflow_provider_binlog.sources.binlog_source import InitialLoad, LakeFormat, check_choice
from airflow_provider_binlog.spark.job.options import APPLICATION, parse_arguments
from airflow_provider_binlog.spark.merge.progress import read_start
from airflow_provider_binlog.staging.paths import StoredFiles
from airflow_provider_binlog.table_options import TableOptions


class BinlogMergeOperator(SparkJobOperator):
    """Apply what is staged to lakehouse tables: a SparkSubmitOperator that knows its application.

    It sets application, Python files and arguments, and takes all other arguments of a
    SparkSubmitOperator: ``conn_id``, ``conf``, ``packages``, ``executor_memory``, ...
    ``application_args`` are appended to its own.

    Every target table carries the sequence of the last manifest applied to it, so a merge may run
    twice, late, or for many manifests at once.

    A table that is ``loading`` or ``stale``, because what it lacks is not staged or cannot be
    followed, is left alone until it is reloaded: the report and a warning in the log say why. The
    others are merged. The :class:`~airflow_provider_binlog.BinlogTablesLiveOperator` makes a run
    fail for it.

    A table is reloaded from its newest snapshot, once everything is staged that the snapshot may
    have seen: its rows, with the staged changes after them, replace those of the lake table in one
    commit.

    Where nothing is new, no Spark is started: no manifest that is not merged, no table that waits
    for one, and no merge that was killed. That is known from files beside the manifests; if they
    were deleted, the job is submitted.

    Returns the job's report: rows inserted, updated and deleted by table, how many rows were
    updated or deleted that a table did not have, which versions of the live tables are one state
    of the source, and the id of the publish record that says so.

    The event of every asset among the outlets carries ``{"source", "through", "stop", "rows",
    "not_live", "versions", "published"}``. An ``AssetAlias`` among them gets an event of an asset
    for each table that was merged, its name in the lake or the URI of its folder, with ``{"source",
    "table", "inserted", "updated", "deleted", "version", "stop"}``: DAGs can wait for one table.

    :param staged: What the extract operator returned, ``extract.output``. A DAG that only merges
        passes ``{"source": name, "staging_path": ...}``: everything staged so far.
        (templated)
    :param format: ``"delta"``, ``"iceberg"`` or ``"postgresql"``. (templated)
    :param lake: For Delta the folder of the tables, ``s3://bucket/lake``; for Iceberg the name of
        the catalog; for PostgreSQL the id of the Airflow connection to the database, whose password
        only the driver gets, beside the task. (templated)
    :param tables: Globs of ``database.table`` to merge, and ``!globs`` that take some back; all
        that are staged by default. The task warns of globs that match nothing that is staged:
        they are misspelled, or nothing of their tables was logged yet. (templated)
    :param exclude: Globs of tables among them to leave out; the task warns of those that match
        nothing that is captured. (templated)
    :param options: :class:`~airflow_provider_binlog.TableOptions` by globs of ``database.table``,
        or their JSON form. ``exclude_columns`` and ``hash_columns`` are read by the extract and the
        snapshot operators; a table of which such a column is staged as it is becomes ``stale``.
        Targets of Delta are names in ``spark_catalog``; without one a table is a folder below
        ``lake``. The default of Iceberg and PostgreSQL is ``"{database}.{table}"``. (templated)
    :param initial_load: What to do about a table that was never loaded, and has rows from before
        the staged log, which does not contain its ``CREATE TABLE``. ``"snapshot"``: it is
        ``loading``, and left alone until a snapshot of it is there. ``"changes_only"``: it begins
        with the changes that are staged, and lacks the other rows, as its state says. ``"fail"``:
        the task fails for it, once the other tables are merged.
    :param adopt: Whether snapshots are also loaded into lake tables that merges of another source
        made, or someone else did with the columns of the source's table: their rows are replaced,
        and from then on they are merged.
    :param upgrade: Whether existing Delta tables get features that a change of their columns needs,
        and that their readers have to know: column mapping, type widening, timestamps without a
        time zone. If not, such a table is ``stale``.
    :param tag: A tag for the versions of Iceberg tables that are one state of the source, in place
        of an earlier tag of this name: ``"{{ ds }}"``. Spark is then started by every run.
        (templated)
    :param follow: For how long the job continues and merges what is staged meanwhile, as soon as it
        is committed; by default it ends with what is staged. A retry follows for the rest of the
        time, counted from the start of the first try.
    :param shared_archive: A file on the worker, ``"/opt/airflow/spark/merge.jsa"``, which holds the
        classes of the driver's JVM, for Java's class data sharing. The first job writes it at its
        end, which takes longer; those after it start in half of the time. Its folder is one that
        only Airflow's account may write to, since the JVM runs what is in it; the deploy mode is
        ``client``. (templated)
    """

    template_fields: Sequence[str] = (*SparkJobOperator.template_fields, "options", "tag")
    operator_extra_links = SOURCE_LINKS
    ui_color = "#f3dcbf"

    def __init__(
        self,
        *,
        staged: Mapping[str, Any] | XComArg,
        format: LakeFormat,  # noqa: A002
        lake: str,
        tables: Sequence[str] = (),
        exclude: Sequence[str] = (),
        options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
        initial_load: InitialLoad = "snapshot",
        adopt: bool = False,
        upgrade: bool = True,
        tag: str | None = None,
        follow: timedelta | None = None,
        shared_archive: str | None = None,
        conn_id: str = "spark_default",
        name: str = "binlog-merge",
        **kwargs: Any,
    ) -> None:
        super().__init__(
            staged=staged,
            format=format,
            lake=lake,
            tables=tables,
            exclude=exclude,
            shared_archive=shared_archive,
            conn_id=conn_id,
            name=name,
            **kwargs,
        )
        self.options = options
        self.initial_load = initial_load
        self.adopt = adopt
        self.upgrade = upgrade
        self.tag = tag
        self.follow = follow

    def execute(self, context: Context) -> Any:
        """Submit the job and return its report; see the class."""
        with fail_unless_retryable():
            source, staging_path = read_location(self.staged)
            environment = self.set_environment()
            seconds = seconds_to_follow(context, self.follow)
            arguments = merge_arguments(
                source=source,
                staging_path=staging_path,
                through=None if seconds else self.staged.get("last_sequence"),
                format=self.format,
                lake=self.lake,
                tables=self.tables,
                exclude=self.exclude,
                options=self.options,
                adopt=self.adopt,
                upgrade=self.upgrade,
                initial_load=self.initial_load,
                tag=self.tag,
            )
            more = self.application_args or []
            if seconds:
                more = ["--follow", f"{seconds:.0f}", *more]
            files = StoredFiles(open_store(staging_path), source)
            idle = find_idle_report(files, [*arguments, *more])
            if idle is not None and not seconds:
                self.log.info("%s: nothing to merge, no Spark is started", source)
                return self._finish(context, idle, [])
            with TemporaryDirectory(prefix="binlog-merge-") as folder:
                if self.format == "postgresql":
                    if environment.in_cluster:
                        raise need_client("the file with the password")
                    file = Path(folder) / "connection.json"
                    settings = read_postgres_settings(self.lake)
                    settings.write(file)
                    address = f"postgres://{settings.host}:{settings.port}"
                    self._database = address, settings.database
                    more = [*more, "--connection", str(file)]
                reported = self.submit(context, APPLICATION, arguments, folder, more)
            # In client mode the job's own lines are in the log.
            lines = list_merged(reported) if environment.in_cluster else []
            return self._finish(context, reported, lines)

    def _finish(
        self, context: Context, result: dict[str, Any], lines: Iterable[str]
    ) -> dict[str, Any]:
        """Log a report, and pass it on."""
        for line in (*lines, describe_merge(result)):
            self.log.info("%s", line)
        for line in (*list_warnings(result), *list_held(result)):
            self.log.warning("%s", line)
        send_merged(result, self.format, self.lake)
        pass_to_outlets(self, context, describe_for_asset(result))
        add_to_aliases(self, context, describe_for_aliases(result))
        self._report = result
        if lineage.is_enabled():
            self._columns = lineage.find_columns(open_store(read_location(self.staged)[1]), result)
        return result

    _report: Mapping[str, Any] | None = None
    _columns: lineage.Columns = MappingProxyType({})
    _database: lineage.Dataset | None = None

    def get_openlineage_facets_on_complete(self, _: Any) -> Any:
        """Return what was staged of the merged tables, and their lake tables, for OpenLineage."""
        if self._report is None:
            return None
        _, staging_path = read_location(self.staged)
        return lineage.describe_merge(
            self._report, staging_path, self.format, self._columns, self._database
        )


def merge_arguments(
    *,
    source: str,
    staging_path: str,
    through: int | str | None,
    format: LakeFormat,  # noqa: A002
    lake: str,
    tables: Sequence[str] = (),
    exclude: Sequence[str] = (),
    options: Mapping[str, TableOptions | Mapping[str, Any]] | None = None,
    adopt: bool = False,
    upgrade: bool = True,
    initial_load: InitialLoad = "snapshot",
    tag: str | None = None,
) -> list[str]:
    """Return the merge job's arguments; a plain SparkSubmitOperator takes them, too.

    They are those of the :class:`~airflow_provider_binlog.BinlogMergeOperator`. ``staging_path``
    has no Airflow connection in it; ``through`` is the number of the last manifest to apply, or a
    template of it, and None for the newest.

    Raises:
        ConfigurationError: An argument cannot be used as given.
    """
    check_choice(LakeFormat, format, "format")
    check_choice(InitialLoad, initial_load, "initial_load")
    rules = read_options(options)
    arguments = [
        *("--staging", spark_location(staging_path)),
        *("--source", source),
        *("--format", format),
        *("--lake", lake_location(format, lake, rules)),
    ]
    if through is not None:
        arguments += ["--through", str(through)]
    if rules.by_glob:
        arguments += ["--options", rules.to_text()]
    if globs := read_globs(tables, "tables"):
        arguments += ["--tables", *globs]
    if globs := read_globs(exclude, "exclude"):
        arguments += ["--exclude", *globs]
    if initial_load != "snapshot":
        arguments += ["--initial-load", initial_load]
    if adopt:
        arguments.append("--adopt")
    if not upgrade:
        arguments.append("--no-upgrade")
    if tag is not None:
        arguments += ["--tag", tag]
    return arguments


def find_idle_report(files: StoredFiles, arguments: Sequence[str]) -> dict[str, Any] | None:
    """Return the report of a job that would do nothing; None if there may be work for Spark."""
    started = time.monotonic()
    options, _ = parse_arguments(arguments)
    start = read_start(files, options)
    if options.tag is not None or not start.is_idle:
        return None
    report: dict[str, Any] = json.loads(start.idle_report(time.monotonic() - started).to_json())
    return report
