"""BinlogMergeOperator is a SparkSubmitOperator with its arguments filled in."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, ClassVar

import pytest
from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG, BaseHook, Connection
from airflow.sdk.exceptions import AirflowException, AirflowFailException
from airflow.sdk.observability import stats

from airflow_provider_binlog.errors import (
    ConfigurationError,
    ConnectionNotFoundError,
    UnknownMergeError,
)
from airflow_provider_binlog.operators import merge as module
from airflow_provider_binlog.operators.merge import BinlogMergeOperator, merge_arguments
from airflow_provider_binlog.operators.spark_job import report_key
from airflow_provider_binlog.spark.job.options import parse_arguments
from airflow_provider_binlog.spark.job.submit import find_spark_submit
from airflow_provider_binlog.table_options import TableOptions
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Iterator

    from airflow_provider_binlog.staging.object_store import ObjectStore


def test_the_job_understands_its_arguments() -> None:
    arguments = merge_arguments(
        source="shop",
        staging_path="s3://conn@lake/staging",
        through=42,
        format="delta",
        lake="s3://lake/tables",
        tables=["shop.*", "crm.users"],
        exclude=["*.tmp"],
        options={
            "*": TableOptions(target="{database}_{table}"),
            "shop.visits": {"key": ["day", "id"]},
        },
        initial_load="changes_only",
        upgrade=False,
    )

    options, report = parse_arguments([*arguments, "--report", "file:///r"])

    assert report == "file:///r"
    assert (options.source, options.through, options.format) == ("shop", 42, "delta")
    assert (options.staging, options.lake) == ("s3a://lake/staging", "s3a://lake/tables")
    assert (options.tables, options.exclude) == (("shop.*", "crm.users"), ("*.tmp",))
    visits = TableOptions(key=("day", "id"), target="{database}_{table}")
    assert options.table_options.of(("shop", "visits")) == visits
    assert (options.initial_load, options.upgrade) == ("changes_only", False)


def test_everything_staged_is_merged_where_no_number_is_given() -> None:
    arguments = merge_arguments(
        source="shop", staging_path="/s", through=None, format="iceberg", lake="catalog"
    )

    options, _ = parse_arguments(arguments)

    assert (options.through, options.lake, options.tables) == (None, "catalog", ())
    assert (options.initial_load, options.upgrade) == ("snapshot", True)


def test_another_format_is_refused() -> None:
    other: Any = "hudi"

    with pytest.raises(ConfigurationError, match="delta, iceberg"):
        merge_arguments(source="s", staging_path="/s", through=1, format=other, lake="/l")


@pytest.mark.parametrize(
    ("argument", "says"),
    [
        ({"tables": "shop.*"}, "tables is a list of globs"),
        ({"exclude": "shop.*"}, "exclude is a list of globs"),
        (
            {"options": {"shop.visits": {"key": "id"}}},
            "another type.*table=shop.visits, option=key",
        ),
    ],
)
def test_a_text_is_not_read_letter_by_letter(argument: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        merge_arguments(
            source="s", staging_path="/s", through=1, format="delta", lake="/l", **argument
        )


def merge(**arguments: Any) -> BinlogMergeOperator:
    staged = {"source": "shop", "staging_path": "memory://stale", "last_sequence": 1}
    given = {"staged": staged, "format": "delta", "lake": "/l", **arguments}
    return BinlogMergeOperator(task_id="merge", **given)


def test_what_a_spark_submit_operator_takes_it_takes() -> None:
    operator = merge(conn_id="cluster", conf={"a": "b"}, packages="x:y:1", executor_memory="2g")

    assert operator.conf == {"a": "b"}
    assert operator.packages == "x:y:1"
    assert all(hasattr(operator, name) for name in operator.template_fields)


def test_a_spark_connection_that_does_not_exist_is_not_taken_for_yarn() -> None:
    with pytest.raises(ConnectionNotFoundError, match="no_such_spark"):
        merge(conn_id="no_such_spark").execute({})


@pytest.mark.parametrize(
    ("staged", "says"),
    [
        (None, "what the extract task returned is not in its XCom: clear that task"),
        ("shop", "extract operator returned"),
        ({"source": "shop"}, "extract operator returned"),
    ],
)
def test_what_no_extract_returned_is_refused(staged: Any, says: str) -> None:
    with pytest.raises(AirflowFailException, match=says):
        merge(staged=staged).execute({})


def test_it_can_be_mapped_over_lakes() -> None:
    with DAG("many", schedule=None) as dag:
        BinlogMergeOperator.partial(task_id="merge", staged={}).expand_kwargs(
            [{"format": "delta", "lake": "/l"}, {"format": "iceberg", "lake": "catalog"}]
        )

    assert dag.get_task("merge").is_mapped


def test_spark_submit_of_this_environment_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SPARK_HOME", raising=False)
    found = find_spark_submit()
    monkeypatch.setenv("SPARK_HOME", "/opt/spark")

    assert found is not None
    assert Path(found).name == "spark-submit"
    assert find_spark_submit() is None


# ------------------------------------------------------------------- tables that wait for a reload

AT = {"file": "binlog.000001", "offset": 4, "gtid": None}
REPORT_OF_TWO: dict[str, Any] = {
    "source": "shop",
    "through": 5,
    "unmatched": ["shop.C"],
    "versions": {"shop.c": 7, "shop.d": 9},
    "tables": [
        {"table": "shop.a", "target": "l.a", "status": "merged", "reason": ""}
        | {"rows": {"inserted": 4, "updated": None, "deleted": 1}}
        | {"missing_rows": 3, "suspect": "version 7 is no merge's"},
        {"table": "shop.b", "target": "l.b", "status": "stale", "rows": {}, "reason": "why"},
    ],
}
STAGED: dict[str, Any] = {
    "source": "shop",
    "staging_path": "memory://stale",
    "last_sequence": 5,
    "identity": {"flavor": "mysql", "server": "a", "log_name": "binlog"},
    "stop": AT | {"offset": 900},
}


class Instance:
    """A task instance that keeps what is pushed."""

    dag_id, run_id, task_id, map_index, try_number = "d", "r", "merge", -1, 1
    stats_tags: ClassVar[dict[str, str]] = {}

    def __init__(self) -> None:
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, *, key: str, value: Any) -> None:
        self.pushed[key] = value


def a_context(instance: Instance) -> Any:
    return {"ti": instance}


@pytest.fixture
def connected(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(conn_id="spark_default", conn_type="spark", host="local[2]")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)


@pytest.mark.usefixtures("connected")
def test_what_needs_a_person_is_warned_of_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(module, "find_idle_report", lambda *_: REPORT_OF_TWO)
    tables: dict[tuple[str, ...], float] = {}

    def send(name: str, value: float, tags: dict[str, str]) -> None:
        tables[(name, *tags.values())] = value

    monkeypatch.setattr(stats, "gauge", send)
    monkeypatch.setattr(stats, "incr", send)

    merge().execute(a_context(Instance()))

    # What monitoring shows.
    assert tables == {
        ("binlog.merged_rows", "shop", "delta", "_l"): 5,
        ("binlog.tables", "shop", "delta", "_l", "loading"): 0,
        ("binlog.tables", "shop", "delta", "_l", "stale"): 1,
        ("binlog.tables", "shop", "delta", "_l", "suspect"): 1,
        ("binlog.tables", "shop", "delta", "_l", "live"): 2,
    }

    warned = capsys.readouterr().out
    for line in (
        "3 rows that were updated or deleted were not in l.a",
        "shop.a is suspect: version 7 is no merge's",
        "globs match no staged table, in letters and case: correct them",
        "(globs=shop.C)",
        "shop.b is stale, and is not merged: why",
    ):
        assert warned.count(line) == 1


REPORT = {"source": "shop", "through": 5, "status": "merged", "tables": []}


@pytest.fixture
def submitted(connected: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """Yield the store of a merge that has something to do."""
    monkeypatch.setattr(module, "find_idle_report", lambda *_: None)
    store = open_store("memory://stale")
    yield store
    store.delete_folder("shop")


def test_what_an_earlier_try_reported_is_not_why_this_one_fails(
    submitted: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    instance = Instance()
    key = report_key("shop", a_context(instance))
    failed = REPORT | {"status": "failed", "retryable": False, "error": "the first one"}
    submitted.write(key, json.dumps(failed).encode())

    def fail(*_: object) -> None:
        raise AirflowException("killed")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fail)

    with pytest.raises(UnknownMergeError, match="spark-submit failed: killed"):
        merge().execute(a_context(instance))


@pytest.mark.parametrize("report", [None, b'{"status": "mer', json.dumps(REPORT).encode()])
def test_a_job_without_a_report_may_be_tried_again(
    submitted: ObjectStore, monkeypatch: pytest.MonkeyPatch, report: bytes | None
) -> None:
    """That of a task which was cleared after a success is not its own."""
    context = a_context(Instance())
    monkeypatch.setattr(SparkSubmitOperator, "execute", lambda *_: None)
    if report is not None:
        submitted.write(report_key("shop", context), report)

    with pytest.raises(UnknownMergeError, match="ended without a report"):
        merge().execute(context)


def test_a_merge_that_follows_does_not_end_with_what_its_upstream_staged(
    submitted: ObjectStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    context, given = a_context(Instance()), []
    run = SimpleNamespace(start_date=datetime(2026, 11, 30, tzinfo=UTC))
    context |= {"dag_run": run, "task_state_store": States()}

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        given.append(parse_arguments(operator.application_args)[0])
        submitted.write(report_key("shop", context), json.dumps(REPORT).encode())

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)
    merge(follow=timedelta(minutes=2)).execute(context)
    merge().execute(context)

    assert [(options.follow, options.through) for options in given] == [(120, None), (0, 1)]


def test_arguments_that_the_job_does_not_take_fail_without_a_retry(
    connected: None,
) -> None:
    with pytest.raises(AirflowFailException, match="not database"):
        merge(options={"visits": TableOptions(key=("id",))}).execute(a_context(Instance()))


@pytest.mark.parametrize("retryable", [True, False])
def test_a_job_that_fails_is_an_error_that_says_why(
    submitted: ObjectStore, monkeypatch: pytest.MonkeyPatch, *, retryable: bool
) -> None:
    instance = Instance()
    key = report_key("shop", a_context(instance))

    def fail(*_: object) -> None:
        tables = [{"table": "shop.a", "error": "it broke"}]
        failed = {"status": "failed", "retryable": retryable, "error": None, "tables": tables}
        submitted.write(key, json.dumps(failed).encode())
        raise AirflowException("Error code is: 75")

    monkeypatch.setattr(SparkSubmitOperator, "execute", fail)

    with pytest.raises(
        UnknownMergeError if retryable else AirflowFailException, match=r"shop\.a: it broke"
    ):
        merge().execute(a_context(instance))


@pytest.mark.parametrize("written", [True, False])
def test_a_job_is_given_an_archive_of_classes_and_one_that_java_did_not_write_is_named(
    submitted: ObjectStore,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    *,
    written: bool,
) -> None:
    instance, archive = Instance(), tmp_path / "spark" / "merge.jsa"

    def execute(operator: SparkSubmitOperator, _: Any) -> None:
        option = (operator.conf or {})["spark.driver.extraJavaOptions"]
        if written:
            Path(option.removeprefix("-XX:ArchiveClassesAtExit=")).write_bytes(b"classes")
        key = report_key("shop", a_context(instance))
        submitted.write(key, json.dumps(REPORT).encode())

    monkeypatch.setattr(SparkSubmitOperator, "execute", execute)

    merge(shared_archive=str(archive)).execute(a_context(instance))

    assert archive.exists() is written
    assert ("Java wrote no archive" in capsys.readouterr().out) is not written


def test_a_folder_that_cannot_be_made_is_named(submitted: ObjectStore, tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()

    with pytest.raises(AirflowFailException, match="shared_archive= cannot be made"):
        merge(shared_archive=str(file / "merge.jsa")).execute(a_context(Instance()))


# ------------------------------------------------------------------- a driver on a cluster


class States(dict[str, str]):
    """What Airflow keeps of a task's tries."""

    def set(self, key: str, value: str) -> None:
        self[key] = value


def connect_to_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = Connection(
        conn_id="cluster",
        conn_type="spark",
        host="spark://m",
        extra=json.dumps({"deploy-mode": "cluster"}),
    )
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)


def run_on_cluster(
    monkeypatch: pytest.MonkeyPatch,
    report: dict[str, Any] | None,
    state: str = "FINISHED",
    earlier: str = "FINISHED",
) -> Any:
    """Merge in a task whose first try's driver, as it reported, succeeded; another one ends so."""
    connect_to_cluster(monkeypatch)
    monkeypatch.setattr(module, "find_idle_report", lambda *_: None)
    context = a_context(Instance())
    context["task_state_store"] = States({BinlogMergeOperator.external_id_key: "driver-1"})

    store, key = open_store("memory://driver"), report_key("shop", context)
    store.write(key, json.dumps(REPORT | {"through": 4}).encode())

    def submit(*_: Any) -> str:
        if report is not None:
            store.write(key, json.dumps(report).encode())
        return "driver-2"

    def poll(*_: Any) -> None:
        if state != "FINISHED":
            raise RuntimeError(f"driver-2 exited with status {state}")

    for name, method in (
        ("submit_job", submit),
        ("poll_until_complete", poll),
        ("get_job_status", lambda *_: earlier),
    ):
        monkeypatch.setattr(SparkSubmitOperator, name, method)
    return merge(staged=STAGED | {"staging_path": "memory://driver"}).execute(context)


def test_a_driver_in_a_cluster_has_no_archive_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    connect_to_cluster(monkeypatch)

    with pytest.raises(AirflowFailException, match="deploy_mode is client"):
        merge(shared_archive="/opt/merge.jsa").execute(a_context(Instance()))


def test_a_cleared_task_merges_again(monkeypatch: pytest.MonkeyPatch) -> None:
    assert run_on_cluster(monkeypatch, REPORT) == REPORT


def test_a_cleared_task_does_not_believe_the_report_of_its_first_driver(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with pytest.raises(UnknownMergeError, match="ended without a report"):
        run_on_cluster(monkeypatch, None)


def test_a_driver_that_still_runs_is_waited_for_and_reports(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert run_on_cluster(monkeypatch, None, earlier="RUNNING")["through"] == 4


@pytest.mark.parametrize("state", ["FAILED", "FINISHED"], ids=["failed", "deleted since"])
def test_a_driver_s_failure_is_the_one_that_it_reported(
    monkeypatch: pytest.MonkeyPatch, state: str
) -> None:
    """Of a driver on Kubernetes whose pod does not exist any more Airflow says no failure."""
    table = {"table": "shop.a", "error": "two columns differ only in case"}
    report = {"status": "failed", "retryable": False, "error": None, "tables": [table]}

    with pytest.raises(AirflowFailException, match=r"shop.a: two columns"):
        run_on_cluster(monkeypatch, report, state)
