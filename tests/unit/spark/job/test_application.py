"""The job's arguments, its report, and the zip it ships in."""

from __future__ import annotations

import json
import runpy
import subprocess
import sys
import zipfile
from pathlib import Path

import pyspark
import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.spark.job.application import main
from airflow_provider_binlog.spark.job.options import (
    APPLICATION,
    Report,
    TableReport,
    build_py_files,
    parse_arguments,
)
from airflow_provider_binlog.table_options import TableOptions, TableRules

NEEDED = ["--staging", "s3a://b/s", "--source", "shop", "--format", "delta", "--lake", "s3a://b/l"]


def test_arguments() -> None:
    more = ["--through", "7", "--tables", "a.*", "b.c", "--options", '{"a.d": {"key": ["z"]}}']
    options, report = parse_arguments([*NEEDED, *more, "--table-property", "a=b=c"])

    assert (options.staging, options.source, options.through) == ("s3a://b/s", "shop", 7)
    assert options.tables == ("a.*", "b.c")
    assert options.table_options == TableRules({"a.d": TableOptions(key=("z",))})
    assert options.properties == {"a": "b=c"}
    assert report is None


def test_a_table_is_one_line() -> None:
    done = TableReport("shop.t", "`t`", is_merged=True, seconds=1.25, version=7)
    done.rows = {"inserted": 1200, "updated": 3, "deleted": 0, "moved": None}

    assert done.line() == "shop.t: 1,200 inserted, 3 updated rows in 1.2 s, version 7"
    done.missing_rows = 4
    assert done.line().endswith(", 4 rows that were updated or deleted were not there")
    assert TableReport("shop.t", "`t`").line() == "shop.t: current in 0.0 s"
    # Its error follows in that of the job.
    assert table("no").line() == "shop.t: failed after 0.0 s"


@pytest.mark.parametrize(
    "wrong",
    [
        ["--options", "{"],
        ["--options", '{"a.b": {"kye": ["c"]}}'],
        ["--options", '{"*": {"target": "{schema}.{table}"}}'],
        ["--table-property", "a"],
        ["--format", "hudi"],
        ["--through", "x"],
        ["--through", "1", "--follow", "60"],
    ],
)
def test_unusable_arguments_exit_with_2(wrong: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="cannot use its arguments"):
        parse_arguments([*NEEDED, *wrong])

    assert main([*NEEDED, *wrong]) == 2


def table(error: str | None = None, *, retryable: bool = False) -> TableReport:
    return TableReport("shop.t", "`t`", error=error, retryable=retryable)


@pytest.mark.parametrize(
    ("report", "status", "retryable"),
    [
        (Report("s", 1, [table()], 0.0), "merged", False),
        (Report("s", 1, [], 0.0, error="x"), "failed", False),
        (Report("s", 1, [], 0.0, unmatched=["shop.C"]), "merged", False),
        (Report("s", 1, [], 0.0, error="x", retryable=True), "failed", True),
        (Report("s", 1, [table("x", retryable=True), table()], 0.0), "failed", True),
        (Report("s", 1, [table("x", retryable=True), table("y")], 0.0), "failed", False),
    ],
)
def test_a_report_says_whether_to_try_again(report: Report, status: str, retryable: bool) -> None:
    value = json.loads(report.to_json())

    assert (value["status"], value["retryable"]) == (status, retryable)
    assert "\n" not in report.to_json()


def test_the_zip_is_the_same_whenever_it_is_built(tmp_path: Path) -> None:
    (tmp_path / "other").mkdir()
    one, other = build_py_files(tmp_path), build_py_files(tmp_path / "other")

    assert one.read_bytes() == other.read_bytes()
    assert [path.name for path in tmp_path.iterdir() if path.is_file()] == [one.name]
    names = zipfile.ZipFile(one).namelist()
    assert "airflow_provider_binlog/errors.py" in names
    decoders = {Path(name).name for name in names if "binlog/binlog/" in name}
    assert decoders == {"__init__.py", "buffer.py", "gtid_set.py"}
    staging = {Path(name).name for name in names if "binlog/staging/" in name}
    assert staging == {"__init__.py", "paths.py"}


def test_the_zip_and_pyspark_are_all_the_job_needs(tmp_path: Path) -> None:
    home = Path(pyspark.__file__).parent
    (py4j,) = (home / "python" / "lib").glob("py4j-*.zip")
    path = [str(build_py_files(tmp_path)), str(home / "python" / "lib" / "pyspark.zip"), str(py4j)]
    hide = "sys.modules.update(dict.fromkeys(['airflow', 'numpy', 'pyarrow', 'fsspec', 'pymysql']))"
    code = f"import sys; sys.path[:0] = {path}; {hide}; import airflow_provider_binlog.spark."
    code += "job.application as job; assert '.zip' in job.__file__"

    subprocess.run([sys.executable, "-I", "-S", "-c", code], check=True)


def test_an_old_python_of_the_driver_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 10, 12))

    with pytest.raises(SystemExit, match=r"Python 3\.11 or newer.*spark\.pyspark\.python"):
        runpy.run_path(str(APPLICATION))


def test_packing_needs_no_pyspark() -> None:
    code = "import sys; sys.modules['pyspark'] = None; "
    code += "from airflow_provider_binlog.spark.job import options, session"

    subprocess.run([sys.executable, "-c", code], check=True)
