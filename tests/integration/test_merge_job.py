"""The job as it is submitted, and on an object store."""

from __future__ import annotations

import json
import os
import re
import subprocess
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from airflow_provider_binlog.hooks.spark_submit import shared_classes
from airflow_provider_binlog.spark.job import application as merge_job
from airflow_provider_binlog.spark.job.options import APPLICATION, build_py_files
from airflow_provider_binlog.spark.job.session import iceberg_conf
from tests.faults.spark_job import SparkJob
from tests.support.spark_conf import join_confs, s3a_conf
from tests.support.stores import open_store
from tests.unit.spark.session import shared_session
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, local_workplace, report_of

if TYPE_CHECKING:
    from pathlib import Path

    from tests.fixtures.spark import SparkEnvironment
    from tests.services.s3 import S3Server


# test_surface_dag.py has Iceberg on S3.
@pytest.mark.parametrize("format_", ["delta", pytest.param("iceberg", marks=pytest.mark.slow)])
def test_everything_on_s3(
    format_: str, spark_environment: SparkEnvironment, s3_server: S3Server
) -> None:
    spark = shared_session(spark_environment)
    conf = s3a_conf(
        endpoint=s3_server.endpoint,
        access_key=s3_server.access_key,
        secret_key=s3_server.secret_key,
    )
    hadoop = spark.sparkContext._jsc.hadoopConfiguration()
    for name, value in conf.items():
        hadoop.set(name.removeprefix("spark.hadoop."), value)
    folder = f"lake/{uuid4().hex}"
    store = open_store(
        f"s3://{folder}/staging",
        key=s3_server.access_key,
        secret=s3_server.secret_key,
        endpoint_url=s3_server.endpoint,
    )
    workplace = Workplace(spark, format_, f"s3a://{folder}", store, catalog="s3lake")
    source = workplace.new_source()
    table = source.create(workplace.database, "a/b", {"id": INT, "from": TEXT}, ("id",))
    for id_ in range(9):
        table.insert(**{"id": id_, "from": "new"})
    source.commit()
    workplace.merge()
    table.swap(1, 2, 99)
    table.delete(3)
    source.commit()

    workplace.merge(verify_parts=True)

    workplace.check(table)
    assert workplace.merge().tables == []


def test_the_job_is_submitted_and_reports(
    spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    workplace = local_workplace(shared_session(spark_environment), "iceberg", tmp_path)
    source = workplace.new_source()
    table = source.create("shop", "orders", {"id": INT, "note": TEXT}, ("id",))
    log = source.create("shop", "log", {"note": TEXT})
    table.insert(id=1, note="one")
    log.insert(note="one")
    source.commit()
    conf = join_confs(spark_environment.conf, iceberg_conf("own", f"{tmp_path}/warehouse"))
    del conf["spark.log.level"]  # the job's own
    command = spark_environment.command(conf)
    command += ["--py-files", str(build_py_files(tmp_path)), str(APPLICATION)]
    command += ["--staging", f"{workplace.root}/staging", "--source", workplace.source]
    command += ["--format", "iceberg", "--lake", "own", "--options"]
    command += ['{"shop.log": {"key": ["note"]}, "*": {"target": "{database}.{table}"}}']
    report = tmp_path / "report.json"
    done = subprocess.run(
        [*command, "--report", str(report)],
        cwd=tmp_path,
        env=os.environ | spark_environment.variables,
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stderr[-2000:]
    written = json.loads(report.read_text())
    assert {each["table"]: each["rows"]["inserted"] for each in written["tables"]} == {
        "shop.log": 1,
        "shop.orders": 1,
    }
    # Once each; the report is in its file.
    lines = [re.sub(r"[\d.]+ s, version \d+$", "", line) for line in done.stdout.splitlines()]
    assert {line.partition(": ")[0] for line in lines} == {"1 of 2", "2 of 2"}
    assert sorted(line.partition(": ")[2] for line in lines) == [
        "shop.log: 1 inserted rows in ",
        "shop.orders: 1 inserted rows in ",
    ]
    logged = done.stderr.split("Setting Spark log level")[-1]
    assert re.search(" (INFO|WARN) ", logged) is None, logged


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.parametrize("format_", ["delta", "iceberg"])
def test_a_job_merges_with_the_classes_that_another_one_archived(
    format_: str, spark_environment: SparkEnvironment, tmp_path: Path
) -> None:
    workplace = local_workplace(shared_session(spark_environment), format_, tmp_path)
    source = workplace.new_source()
    table = source.create("shop", f"of {format_}", {"id": INT, "note": TEXT}, ("id",))
    archive = tmp_path / "spark" / "merge.jsa"
    for number in range(2):
        table.insert(id=number, note="new")
        source.commit()
        # Java fails to start if it cannot use the archive.
        strict = {"spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Xshare:on"}
        with shared_classes(str(archive), strict) as conf:
            job = SparkJob(workplace, spark_environment, tmp_path, conf=conf)
            assert job.run() == 0, job.log.read_text()[-2000:]
        workplace.check(table)
        assert archive.stat().st_size > 50 << 20


def test_a_job_that_fails_says_why_in_its_output_and_its_report(
    quick_workplace: Workplace,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    source = quick_workplace.new_source()
    source.commit()
    monkeypatch.setattr(merge_job, "start_spark", lambda _: quick_workplace.spark)
    report = tmp_path / "report.json"
    arguments = ["--staging", f"{quick_workplace.root}/staging", "--source", quick_workplace.source]
    arguments += ["--format", "iceberg", "--lake", "lake", "--through", "2"]

    assert merge_job.main([*arguments, "--report", str(report)]) == 1
    assert capsys.readouterr() == ("", "")
    assert json.loads(report.read_text())["status"] == "failed"

    assert merge_job.main(arguments) == 1
    out, err = capsys.readouterr()
    assert "Traceback" not in out + err
    assert err.startswith("merge failed: a manifest is missing")
    assert "0000000000000002.json" in err
    assert report_of(out)["error"] == json.loads(report.read_text())["error"]
