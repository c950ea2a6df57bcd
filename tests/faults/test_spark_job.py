"""A merge job that gets too little memory, or whose scratch disk is full."""

from __future__ import annotations

import os
import random
import resource
import subprocess
from pathlib import Path

import pytest

from airflow_provider_binlog.spark.job.application import RETRYABLE_EXIT
from tests.faults.memory_group import MemoryGroup
from tests.faults.spark_job import SparkJob
from tests.fixtures.spark import SparkEnvironment
from tests.unit.spark.history import Table
from tests.unit.spark.session import shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, local_workplace

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(1800)]

MIB = 1 << 20


@pytest.fixture
def workplace(format_: str, spark_environment: SparkEnvironment, tmp_path: Path) -> Workplace:
    return local_workplace(shared_session(spark_environment), format_, tmp_path)


@pytest.fixture
def job(workplace: Workplace, spark_environment: SparkEnvironment, tmp_path: Path) -> SparkJob:
    return SparkJob(workplace, spark_environment, tmp_path)


def stage(workplace: Workplace, rows: int) -> tuple[Table, Table]:
    """Stage rows of 4 KiB each that nothing makes smaller, in a table and in one without a key."""
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    log = source.create(workplace.database, "log", {"id": INT, "note": TEXT})
    for id_ in range(rows):
        table.insert(id=id_, note=text())
        log.insert(id=id_, note="once")
    source.commit()
    return table, log


def text() -> str:
    return random.randbytes(2048).hex()


@pytest.mark.fault("merge-memory", lakes="delta iceberg", stores="file")
def test_a_job_that_gets_too_little_memory(
    format_: str, workplace: Workplace, job: SparkJob, memory_group: MemoryGroup
) -> None:
    """From too little for Java on; the kernel kills what takes more than its group may have."""
    tables = stage(workplace, 2000)

    def restrict() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (1024 * MIB, 1024 * MIB))

    assert job.run(restrict) != 0
    failed = []
    for memory in (128, 256, 448, 2000):
        memory_group.limit(memory * MIB)
        if job.run(lambda: memory_group.join(os.getpid())) == 0:
            break
        failed.append(memory)

    assert failed[:2] == [128, 256]
    assert 2000 not in failed, job.log.read_text()[-3000:]
    workplace.check_rows(*tables)
    workplace.merge()
    workplace.check_rows(*tables)


@pytest.mark.fault("scratch-full", lakes="delta iceberg", stores="file")
def test_a_scratch_disk_that_is_full(
    format_: str, workplace: Workplace, job: SparkJob, small_disk: Path
) -> None:
    """Once a shuffle has more bytes than it holds."""
    jars = job.environment.conf["spark.jars"].replace(",", ":")
    # Spark copies to its scratch disk what it is given otherwise.
    job.conf = {
        "spark.jars": "",
        "spark.driver.extraClassPath": jars,
        "spark.local.dir": str(small_disk),
    }
    table, log = stage(workplace, 4000)

    assert job.run() == RETRYABLE_EXIT, job.log.read_text()[-3000:]

    assert "No space left on device" in job.log.read_text()
    grow(small_disk)
    assert job.run() == 0, job.log.read_text()[-3000:]
    workplace.check_rows(table, log)

    for id_ in range(4000):
        table.update(id_, note=text())
        log.insert(id=4000 + id_, note="once")
    table.source.commit()
    grow(small_disk, "4m")
    assert job.run() == RETRYABLE_EXIT, job.log.read_text()[-3000:]
    grow(small_disk)
    assert job.run() == 0, job.log.read_text()[-3000:]
    workplace.check_rows(table, log)


def grow(folder: Path, size: str = "400m") -> None:
    """Give a small disk another size."""
    subprocess.run(["mount", "-o", f"remount,size={size}", str(folder)], check=True)
