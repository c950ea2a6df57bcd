r"""The application that spark-submit runs: chunks or sub-ranges, each read by one task.

    spark-submit --py-files airflow_provider_binlog.zip application.py --job FILE --report FILE

The driver runs beside the Airflow task, where both files are. It starts a Spark job of one task for
each chunk or sub-range, `parallelism` at a time, and none after the first failure.

Exit codes: 0 done; 1 failed; 2 the arguments cannot be used; 75 failed, but may pass by itself.
"""

# ruff: noqa: T201  Progress is printed to stdout, failures to stderr.

from __future__ import annotations

import argparse
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext

from airflow_provider_binlog.errors import SparkJobError
from airflow_provider_binlog.executors.job import Failure, Job, JobReport, Outcome
from airflow_provider_binlog.executors.tasks import run_tasks

if TYPE_CHECKING:
    from collections.abc import Sequence

RETRYABLE_EXIT = 75
"""The exit code of a failure that may pass: `EX_TEMPFAIL` of sysexits.h."""

_TEXT_SIZE_MAX = 1000


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a job; return the exit code."""
    parser = argparse.ArgumentParser("application.py")
    parser.add_argument("--job", required=True, type=Path, help="a file that is read and deleted")
    parser.add_argument("--report", required=True, type=Path, help="a file that is written")
    parsed = parser.parse_args(arguments)
    if not parsed.job.exists():
        parser.error("the file of the job is not there: submit with the deploy mode client")
    job = Job.take(parsed.job)
    try:
        report = read_all(_start_spark(f"binlog: {job.source}"), job)
    except Exception as failure:  # noqa: BLE001  Whatever Spark has raised.
        report = JobReport((), Failure.of(failure))
    parsed.report.write_bytes(report.encode())
    error = report.find_error()
    if error is None:
        return 0
    return RETRYABLE_EXIT if error.retryable else 1


def read_all(context: SparkContext, job: Job) -> JobReport:
    """Run the tasks of a job on Spark's executors; return their outcomes."""
    run = _Run(context, job)
    with ThreadPoolExecutor(job.parallelism) as pool:
        list(pool.map(run.read, job.work.numbers))
    return JobReport(tuple(run.outcomes), run.failure)


class _Run:
    """A running job.

    Attributes:
        outcomes: Of the tasks that ended.
        failure: Of Spark itself.
    """

    def __init__(self, context: SparkContext, job: Job) -> None:
        self.outcomes: list[Outcome] = []
        self.failure: Failure | None = None
        self._context = context
        self._job = job
        self._lock = threading.Lock()
        self._failed = False

    def read(self, number: int) -> None:
        """Read one chunk or sub-range on an executor, unless another one has failed."""
        if self._failed:
            return
        try:
            # The job is in the function, not in the data: Spark writes data to a file.
            partition = self._context.parallelize([number], 1)
            outcomes = partition.mapPartitions(partial(run_tasks, self._job)).collect()
        except Py4JJavaError as error:
            with self._lock:
                self._failed = True
                self.failure = self.failure or _explain(error, number)
                print(f"{self._job.work.subject} {number}: {error}", file=sys.stderr, flush=True)
            return
        with self._lock:
            for outcome in outcomes:
                self._take(outcome)

    def _take(self, outcome: Outcome) -> None:
        self.outcomes.append(outcome)
        subject, count = self._job.work.subject, len(self._job.work.numbers)
        if outcome.failure is None:
            done = f"{len(self.outcomes)} of {count}"
            print(f"{subject} {outcome.number}: {outcome.rows} rows, {done}", flush=True)
            return
        self._failed = True
        text = f"{subject} {outcome.number} failed: {outcome.failure.to_error()}"
        print(f"{text}\n{outcome.failure.trace}".rstrip(), file=sys.stderr, flush=True)


def _explain(error: Py4JJavaError, number: int) -> Failure:
    """Translate a failure of Spark, as a rule the loss of an executor."""
    text = " ".join(str(error.java_exception.getMessage()).split())
    return Failure.of(
        SparkJobError(
            "Spark failed under a task that reads: an executor was lost, or ran out of memory",
            number=number,
            cause=text[:_TEXT_SIZE_MAX],
        )
    )


def _start_spark(name: str) -> SparkContext:
    """Return a context whose tasks run once each, unless their executor is lost."""
    # Without this, SparkConf lacks the submitted settings.
    SparkContext._ensure_initialized()  # noqa: SLF001
    conf = SparkConf().setAppName(name).set("spark.speculation", "false")
    for setting, value in (("spark.log.level", "WARN"), ("spark.ui.showConsoleProgress", "false")):
        conf.setIfMissing(setting, value)
    return SparkContext.getOrCreate(conf)


if __name__ == "__main__":
    sys.exit(main())
