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
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark import SparkConf, SparkContext

from airflow_provider_binlog.errors import SparkJobError
from airflow_provider_binlog.executors.job import (
    TEXT_SIZE_MAX,
    Failure,
    Job,
    JobReport,
    Outcome,
    run_tasks,
)

RETRYABLE_EXIT = 75
"""The exit code of a failure that may pass: `EX_TEMPFAIL` of sysexits.h."""


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
        report = JobReport((Outcome(job.work.numbers[0], failure=Failure.of(failure)),))
    parsed.report.write_bytes(report.encode())
    error = report.find_error()
    if error is None:
        return 0
    return RETRYABLE_EXIT if error.retryable else 1


def read_all(context: SparkContext, job: Job) -> JobReport:
    """Run the tasks of a job on Spark's executors; return their outcomes."""
    outcomes: list[Outcome] = []
    lock = threading.Lock()

    def read(number: int) -> None:
        if any(outcome.failure for outcome in outcomes):
            return
        try:
            # The job is in the function, not in the data: Spark writes data to a file.
            partition = context.parallelize([number], 1)
            [outcome] = partition.mapPartitions(partial(run_tasks, job)).collect()
        except Py4JJavaError as error:
            outcome = Outcome(number, failure=_explain(error, number))
        with lock:
            outcomes.append(outcome)
            _print(job, outcome, len(outcomes))

    with ThreadPoolExecutor(job.parallelism) as pool:
        list(pool.map(read, job.work.numbers))
    return JobReport(tuple(outcomes))


def _print(job: Job, outcome: Outcome, done: int) -> None:
    task, failure = f"{job.work.subject} {outcome.number}", outcome.failure
    if failure is None:
        print(f"{task}: {outcome.rows} rows, {done} of {len(job.work.numbers)}", flush=True)
        return
    text = f"{task} failed: {failure.to_error()}\n{failure.trace}".rstrip()
    print(text, file=sys.stderr, flush=True)


def _explain(error: Py4JJavaError, number: int) -> Failure:
    """Translate a failure of Spark, as a rule the loss of an executor."""
    text = " ".join(str(error.java_exception.getMessage()).split())
    failure = Failure.of(
        SparkJobError(
            "Spark failed under a task that reads: an executor was lost, or ran out of memory",
            number=number,
            cause=text[:TEXT_SIZE_MAX],
        )
    )
    return replace(failure, trace=str(error))


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
