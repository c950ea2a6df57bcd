"""Archive of classes, log and failure of a spark-submit."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from airflow.providers.apache.spark.hooks.spark_submit import SparkSubmitHook
from airflow.sdk import BaseHook, Connection
from airflow.sdk.exceptions import AirflowException

from airflow_provider_binlog.hooks.spark_submit import (
    explain_failure,
    quiet_conf,
    shared_classes,
    silence,
)

JAVA_OPTIONS = "spark.driver.extraJavaOptions"

# As spark-submit of Spark 4.1.3 printed them, with `packages`.
PRINTED = """\
WARNING: Using incubator modules: jdk.incubator.vector
:: loading settings :: url = jar:file:/opt/spark/jars/ivy-2.5.3.jar!/org/apache/ivy/ivysettings.xml
Ivy Default Cache set to: /opt/spark/ivy/cache
The jars for the packages stored in: /opt/spark/ivy/jars
io.delta#delta-spark_4.1_2.13 added as a dependency
:: resolving dependencies :: org.apache.spark#spark-submit-parent-41b1e9a4;1.0
	confs: [default]
	found io.delta#delta-spark_4.1_2.13;4.4.0 in central
downloading https://repo1.maven.org/maven2/io/delta/delta-spark_4.1_2.13-4.4.0.jar ...
	[SUCCESSFUL ] io.delta#delta-spark_4.1_2.13;4.4.0!delta-spark_4.1_2.13.jar (231ms)
:: resolution report :: resolve 123ms :: artifacts dl 5ms
	:: modules in use:
	io.delta#delta-spark_4.1_2.13;4.4.0 from central in [default]
	:: evicted modules:
	org.antlr#antlr4-runtime;4.9 by [org.antlr#antlr4-runtime;4.13] in [default]
	---------------------------------------------------------------------
	|      default     |   5   |   0   |   0   |   0   ||   5   |   0   |
	0 artifacts copied, 3 already retrieved (0kB/5ms)
Using Spark's default log4j profile: org/apache/spark/log4j2-defaults.properties
26/11/24 19:11:22 WARN Utils: Set SPARK_LOCAL_IP if you need to bind to another address
26/11/24 19:11:49 INFO SparkContext: Running Spark version 4.1.3
Setting Spark log level to "ERROR".
"""
SAID = """\
1 of 2: shop.t1: 2 inserted rows in 65.2 s, version 0
26/11/24 19:13:53 ERROR TaskSetManager: Task 0 in stage 3.0 failed 1 times; aborting job
"""


@pytest.fixture
def hook(monkeypatch: pytest.MonkeyPatch) -> SparkSubmitHook:
    connection = Connection(conn_id="spark_default", conn_type="spark", host="local[2]")
    monkeypatch.setattr(BaseHook, "get_connection", lambda *_: connection)
    return SparkSubmitHook(conf={})


@pytest.mark.parametrize(
    ("conf", "shown"), [({"spark.ui.enabled": "false"}, SAID), ({"spark.log.level": "INFO"}, None)]
)
def test_a_job_is_quiet_unless_a_log_level_is_chosen(
    hook: SparkSubmitHook, capsys: pytest.CaptureFixture[str], conf: Any, shown: str | None
) -> None:
    printed = (PRINTED + SAID).splitlines()

    silence(hook, conf)
    hook._process_spark_submit_log(iter(printed))

    logged = capsys.readouterr().out
    expected = [line.strip() for line in (printed if shown is None else shown.splitlines())]
    assert len(logged.splitlines()) == len(expected)
    assert all(line in logged for line in expected)
    # What a failure may be about is kept for its error.
    assert "found io.delta" in hook._submit_log_tail
    assert {"spark.log.level": "ERROR"}.items() <= quiet_conf({}).items()
    assert conf.items() <= quiet_conf(conf).items()


def test_the_reason_of_a_failure_is_not_the_command_line(hook: SparkSubmitHook) -> None:
    def failure(*lines: str) -> str:
        hook._last_submit_log_lines.extend(lines)
        error = AirflowException(f"Cannot execute: spark-submit ... is: 1.{hook._submit_log_tail}")
        hook._last_submit_log_lines.clear()
        return explain_failure(error)

    assert failure("JAVA_HOME is not set", "") == "JAVA_HOME is not set"
    missing = "java.lang.RuntimeException: [unresolved dependency: io.delta#x;1: not found]"
    trace = (f'Exception in thread "main" {missing}', "at org.apache.spark.util.MavenUtils")
    assert failure("WARNING: Using incubator modules", *trace) == missing
    assert failure() == "Cannot execute: spark-submit ... is: 1."


def test_the_first_job_writes_an_archive_of_classes_and_others_start_from_it(
    tmp_path: Path,
) -> None:
    archive = tmp_path / "on the worker" / "merge.jsa"
    conf = {JAVA_OPTIONS: "-Xss4m", "spark.ui.enabled": "false"}

    with shared_classes(str(archive), conf) as first:
        before, _, option = first[JAVA_OPTIONS].partition(" ")
        assert (before, first["spark.ui.enabled"]) == ("-Xss4m", "false")
        written = Path(option.strip("'").removeprefix("-XX:ArchiveClassesAtExit="))
        written.write_bytes(b"classes")
        # Two jobs may begin at once, and none reads what is not whole.
        assert written.parent == archive.parent
        assert not archive.exists()
    with shared_classes(str(archive), None) as later:
        assert later == {JAVA_OPTIONS: f"'-XX:SharedArchiveFile={archive}'"}

    assert archive.read_bytes() == b"classes"
    assert conf[JAVA_OPTIONS] == "-Xss4m"


@pytest.mark.parametrize("fails", [False, True])
def test_a_job_that_failed_or_wrote_no_archive_leaves_none(tmp_path: Path, fails: bool) -> None:
    archive = tmp_path / "merge.jsa"

    with (
        pytest.raises(AirflowException) if fails else nullcontext(),
        shared_classes(str(archive), None) as conf,
    ):
        if fails:
            Path(conf[JAVA_OPTIONS].partition("=")[2]).write_bytes(b"cut")
            raise AirflowException("killed")

    assert list(tmp_path.iterdir()) == []
