"""Spark and what it needs fails under a merge: executors that die, a catalog that is down."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TypeAlias

import pytest

from airflow_provider_binlog.spark.job.failures import explain
from airflow_provider_binlog.spark.job.session import iceberg_conf
from tests.faults.gate import Gate
from tests.faults.spark_job import SparkJob
from tests.fixtures.mysql import execute
from tests.fixtures.spark import SparkEnvironment
from tests.services.iceberg_rest import RestCatalogServer
from tests.services.jars import spark_home
from tests.services.servers import Server
from tests.unit.spark.session import add_catalog, load_catalog_drivers, shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, local_workplace

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.timeout(600)]


@pytest.mark.fault("executor-killed", lakes="delta iceberg", stores="file")
def test_executors_that_are_killed_while_they_run_a_task(
    format_: str, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    """Spark starts others, which do the work again."""
    workplace = local_workplace(shared_session(spark_environment), format_, tmp_path)
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    for id_ in range(50):
        table.insert(id=id_, note="one")
    source.commit()
    home = _home(tmp_path / "spark")
    job = SparkJob(workplace, spark_environment, tmp_path, "local-cluster[1,1,1024]", home)
    process = job.start()
    killed: set[int] = set()
    while process.poll() is None:
        for executor in _executors(process.pid) - killed:
            if len(killed) < 2 and _runs(home, len(killed)):
                os.kill(executor, signal.SIGKILL)
                killed.add(executor)
        time.sleep(0.05)

    assert process.returncode == 0, job.log.read_text()[-3000:]
    assert len(killed) == 2
    workplace.check(table)


def _home(folder: Path) -> Path:
    """Return a Spark whose working files are not those of the environment."""
    folder.mkdir()
    for each in spark_home().iterdir():
        (folder / each.name).symlink_to(each)
    return folder


def _runs(home: Path, number: int) -> bool:
    """Whether the executor of that number has begun a task."""
    outputs = home.glob(f"work/*/{number}/stderr")
    return any("Running task" in each.read_text(errors="replace") for each in outputs)


def _executors(pid: int) -> set[int]:
    """Return the executors among the descendants of a process."""
    found, open_ = set(), [pid]
    while open_:
        each = Path("/proc", str(open_.pop()))
        try:
            if b"CoarseGrainedExecutorBackend" in (each / "cmdline").read_bytes():
                found.add(int(each.name))
            for task in (each / "task").iterdir():
                open_ += map(int, (task / "children").read_text(encoding="ascii").split())
        except OSError:
            continue
    return found


Catalog: TypeAlias = Server | RestCatalogServer


@pytest.fixture(params=["jdbc", "rest"])
def catalog(request: pytest.FixtureRequest, run_folder: Path) -> Iterator[Catalog]:
    """A server that keeps an Iceberg catalog: a database, or one of Iceberg's own protocol."""
    server: Catalog = RestCatalogServer(run_folder / "rest-catalog")
    if request.param == "jdbc":
        server = Server.create("mariadb118", run_folder / "catalog")
    server.start()
    if isinstance(server, Server):
        execute(server, "CREATE DATABASE catalog CHARACTER SET ascii")
    yield server
    server.stop()


@pytest.fixture
def gate(catalog: Catalog) -> Iterator[Gate]:
    """The way to the catalog."""
    with closing(Gate(catalog)) as made:
        yield made


@pytest.fixture
def workplace(
    spark_environment: SparkEnvironment, catalog: Catalog, gate: Gate, tmp_path: Path
) -> Workplace:
    """A lake whose catalog is a service."""
    spark = shared_session(spark_environment)
    made = local_workplace(spark, "iceberg", tmp_path)
    address, kind = f"{gate.host}:{gate.port}", "jdbc" if isinstance(catalog, Server) else "rest"
    made.catalog = f"by_{kind}"
    conf = iceberg_conf(made.catalog, f"file://{tmp_path}/warehouse")
    prefix = f"spark.sql.catalog.{made.catalog}"
    conf[f"{prefix}.type"] = kind
    if kind == "rest":
        # The warehouse is the server's.
        del conf[f"{prefix}.warehouse"]
        conf[f"{prefix}.uri"] = f"http://{address}"
    else:
        load_catalog_drivers(spark)
        conf |= {
            f"{prefix}.uri": f"jdbc:mariadb://{address}/catalog?connectTimeout=2000",
            f"{prefix}.jdbc.user": "root",
            f"{prefix}.jdbc.schema-version": "V1",
        }
    add_catalog(spark, conf)
    return made


@pytest.mark.fault("catalog-down", lakes="iceberg", stores="file")
def test_a_catalog_that_is_down(workplace: Workplace, catalog: Catalog, gate: Gate) -> None:
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "note": TEXT}, ("id",))
    log = source.create(workplace.database, "log", {"note": TEXT})
    table.insert(id=1, note="one")
    source.commit()
    workplace.merge()

    catalog.kill()
    table.insert(id=2, note="two")
    log.insert(note="once")
    source.commit()
    assert fails(workplace)
    catalog.start()
    workplace.merge()
    workplace.check(table)
    assert len(workplace.found(log)) == 1

    gate.reset()
    size = 0
    for number in range(12):
        table.insert(id=10 + number, note="new")
        log.insert(note="new")
        source.commit()
        if number % 2:
            # In the middle, later each time.
            gate.cut_after = gate.passed + size * number // 12
            assert fails(workplace)
            gate.cut_after = None
        before = gate.passed
        workplace.merge()
        size = gate.passed - before
        workplace.check(table)
        assert len(workplace.found(log)) == 2 + number


def fails(workplace: Workplace) -> bool:
    """Merge; return whether that failed, which must be so that Airflow tries it again."""
    try:
        report = workplace.try_merge()
    except Exception as error:  # noqa: BLE001 - as the job looks at it
        assert explain(error).retryable, error  # noqa: PT017
        return True
    assert report.may_pass, [each.error for each in report.tables]
    return report.failed
