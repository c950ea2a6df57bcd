"""A job passes from task to driver to executors whole, and its passwords are not shown."""

from __future__ import annotations

import stat
import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_binlog import errors
from airflow_provider_binlog.errors import BinlogError, ConfigurationError, SparkJobError
from airflow_provider_binlog.executors.job import (
    ChunkWork,
    Failure,
    Job,
    JobReport,
    Outcome,
    SubRangeWork,
    run_tasks,
)
from airflow_provider_binlog.operators.spark_engine import build_py_files
from airflow_provider_binlog.sources.settings import ConnectionSettings, Location

PASSWORD = "planted"
SERVER = ConnectionSettings("127.0.0.1", 1, "me", PASSWORD, ssl_mode="disabled", connect_timeout=1)
STORE = Location("file", "/staging", f'{{"secret": "{PASSWORD}"}}')
CHUNKS = ChunkWork(
    server=SERVER,
    snapshot="an id",
    database="shop",
    table="orders",
    where="id > 5",
    numbers=(0, 2),
    limits={"part_bytes_max": 5},
    rows_per_second_max=0.5,
    threads_running_max=20,
    replica_lag_max=None,
    replicas=(SERVER,),
)
SUB_RANGES = SubRangeWork(
    plan="42-ab",
    run_id="a run",
    server=SERVER,
    files=("s3://c@b/x/",),
    locations={"s3://c@b/x/": STORE},
    numbers=(0, 1),
)


def job(work: ChunkWork | SubRangeWork, staging: Location = STORE) -> Job:
    return Job(source="shop", staging=staging, parallelism=2, work=work)


@pytest.mark.parametrize("work", [CHUNKS, SUB_RANGES], ids=["chunks", "sub-ranges"])
def test_the_driver_takes_what_the_task_wrote(
    work: ChunkWork | SubRangeWork, tmp_path: Path
) -> None:
    file, given = tmp_path / "job.json", job(work)
    given.write(file)
    mode = stat.S_IMODE(file.stat().st_mode)

    assert mode == 0o600
    assert Job.take(file) == given
    assert not file.exists()
    assert PASSWORD not in f"{given!r} {work!r} {STORE!r}"


@pytest.mark.parametrize(
    "kind",
    [
        each
        for each in vars(errors).values()
        if isinstance(each, type) and issubclass(each, BinlogError)
    ],
)
def test_an_error_is_the_same_in_the_airflow_task(kind: type[BinlogError]) -> None:
    error = kind("what happened", table="shop.orders", code=7)

    report = JobReport.decode(JobReport((Outcome(3, failure=Failure.of(error)),)).encode())

    found = report.find_error()
    assert type(found) is kind
    assert (str(found), found.retryable) == (str(error), error.retryable)


def test_what_no_retry_mends_is_what_the_task_fails_with() -> None:
    lost = Outcome(2, failure=Failure.of(SparkJobError("lost")))
    refused = Outcome(1, failure=Failure.of(ConfigurationError("refused")))

    assert isinstance(JobReport((lost, refused)).find_error(), ConfigurationError)
    assert isinstance(JobReport((Outcome(1, 5), lost)).find_error(), SparkJobError)
    assert JobReport((Outcome(1, 5),)).find_error() is None


def test_a_package_that_an_executor_lacks_is_named() -> None:
    found = Failure.of(ModuleNotFoundError("No module named 'pymysql'")).to_error()

    assert isinstance(found, ConfigurationError)
    assert "No module named 'pymysql'" in str(found)


def test_an_error_that_nobody_foresaw_may_pass_and_keeps_its_stack() -> None:
    with pytest.raises(ValueError, match="invalid literal") as raised:
        int("odd")
    found = Failure.of(raised.value)

    assert "ValueError: invalid literal" in str(found.to_error())
    assert found.to_error().retryable
    assert "test_job.py" in found.trace


def test_a_plan_that_is_not_there_is_an_outcome(tmp_path: Path) -> None:
    here = Location("file", str(tmp_path))

    (outcome,) = run_tasks(job(SUB_RANGES, staging=here), [1])

    assert outcome.number == 1
    assert outcome.failure is not None
    assert outcome.failure.error == "ManifestError"
    assert PASSWORD not in str(outcome)


def test_the_zip_and_third_party_packages_are_all_that_executors_need(tmp_path: Path) -> None:
    archive = build_py_files(tmp_path)
    assert build_py_files(tmp_path).read_bytes() == archive.read_bytes()
    code = f"import sys; sys.path.insert(0, {str(archive)!r}); sys.modules['airflow'] = None; "
    names = (
        *("executors.application", "executors.job", "capture.backlog", "snapshot"),
        *("sources.file_log", "sources.server_log", "sources.settings"),
    )
    code += "import airflow_provider_binlog." + ", airflow_provider_binlog.".join(names)
    code += "; assert '.zip' in airflow_provider_binlog.__file__"

    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_driver_elsewhere_does_not_find_the_job(tmp_path: Path) -> None:
    code = "from airflow_provider_binlog.executors.application import main; "
    code += f"main(['--job', '{tmp_path}/job', '--report', '{tmp_path}/report'])"

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)

    assert done.returncode == 2
    assert "submit with the deploy mode client" in done.stderr
