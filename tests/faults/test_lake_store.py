"""An S3 store that fails under a merge, which reads from it and writes to it."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from airflow_provider_binlog.spark.job.session import iceberg_conf
from tests.faults.faulty_s3 import Fault, FaultyS3, Request, once_each
from tests.faults.test_spark import fails
from tests.fixtures.spark import SparkEnvironment
from tests.integration.test_object_store import store_at
from tests.services.s3 import S3Server
from tests.support.spark_conf import s3a_conf
from tests.unit.spark.session import add_catalog, shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace

pytestmark = [pytest.mark.s3, pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]

_IMPATIENT = {
    **{f"retry.{each}limit": "1" for each in ("", "throttle.")},
    **{f"retry.{each}interval": "20ms" for each in ("", "throttle.")},
    "attempts.maximum": "2",
    "connection.timeout": "2s",
    "connection.establish.timeout": "2s",
}


@pytest.fixture
def workplace(
    format_: str, spark_environment: SparkEnvironment, s3: FaultyS3, s3_server: S3Server
) -> Workplace:
    """A lake and a staging area in a bucket that Spark reaches over that way."""
    bucket = f"faulty-{uuid4().hex}"
    s3_server.create_bucket(bucket)
    spark = shared_session(spark_environment)
    known = s3a_conf(
        endpoint=s3.endpoint, access_key=s3_server.access_key, secret_key=s3_server.secret_key
    )
    hadoop: Any = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in known.items():
        hadoop.set(name.replace("spark.hadoop.fs.s3a", f"fs.s3a.bucket.{bucket}"), value)
    for name, value in _IMPATIENT.items():
        hadoop.set(f"fs.s3a.bucket.{bucket}.{name}", value)
    made = Workplace(
        spark, format_, f"s3a://{bucket}", store_at(s3_server, f"s3://{bucket}/staging")
    )
    made.catalog = bucket.replace("-", "_")
    add_catalog(spark, iceberg_conf(made.catalog, f"{made.root}/lake"))
    return made


@pytest.mark.fault("lake-store", lakes="delta iceberg", stores="s3")
def test_a_store_that_fails_under_a_merge(format_: str, workplace: Workplace, s3: FaultyS3) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    log = source.create(workplace.database, "log", {"note": TEXT})
    number = 0

    def change() -> None:
        nonlocal number
        number += 1
        table.insert(id=number, note="new")
        table.update(1, note=f"changed {number}")
        log.insert(note="once")
        source.commit()

    def check() -> None:
        workplace.check(table)
        assert len(workplace.found(log)) == number

    change()
    workplace.merge()
    change()
    before = s3.requests
    workplace.merge()
    whole = s3.requests - before

    # One request of each kind, for good, and from each tenth of the requests on.
    for fault in ("500", "cut", "lost"):
        change()
        s3.fault = once_each(fault)
        fails(workplace)
        s3.fault = lambda _: None
        workplace.merge()
        check()
    for tenth in range(0, 10, 2):
        change()
        s3.fault = after(s3.requests + whole * tenth // 10, ("500", "cut", "lost")[tenth % 3])
        assert fails(workplace) or tenth > 4
        s3.fault = lambda _: None
        workplace.merge()
        check()

    change()
    s3.fault = denied
    report = workplace.try_merge()
    assert not any(each.retryable for each in report.tables)
    assert all("denies access" in str(each.error) for each in report.tables), report
    s3.fault = lambda _: None
    workplace.merge()
    check()


def denied(request: Request) -> str | None:
    """Let nobody write to the lake."""
    writes = request.method in ("PUT", "POST")
    return "403" if writes and "/lake/" in request.path else None


def after(number: int, fault: str) -> Fault:
    """Return what fails all requests after one."""
    return lambda request: fault if request.number > number else None
