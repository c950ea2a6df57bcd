"""Cost of a scheduled merge of few changes: `python -m tests.bench scheduled`.

A job of its own, from spark-submit to its end, beside one that starts the same Spark with the same
settings and runs a literal MERGE for each table. The two take turns, each from the same state of
the lake. With `--archive`, both start from an archive of classes that their first job writes, and
without the JVM's second compiler.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from airflow_provider_binlog.hooks.spark_submit import shared_classes
from airflow_provider_binlog.spark.job import session
from airflow_provider_binlog.spark.job.options import APPLICATION, build_py_files
from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf, job_settings
from tests.bench.merge_data import SmallTables
from tests.bench.merge_lake import CATALOG, THREADS, BenchLake, Cost, start_spark
from tests.fixtures.spark import find_environment
from tests.services.jars import spark_jars
from tests.services.processes import ROOT, RUN_FOLDER
from tests.support.spark_conf import join_confs

FORMATS = "delta", "iceberg"
_SOURCE = "shop"
_NUMBER = 7
_TARGETS = "targets.json"
_TARGET = 1.2
_FIRST_COMPILER = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What the merge sets for few rows.
_FEW = session._FEW | {
    "spark.sql.shuffle.partitions": "1",
    "spark.databricks.delta.merge.materializeSource": "none",
}


def main(arguments: Sequence[str]) -> int:
    """Measure, print, keep, and return the exit code."""
    parser = argparse.ArgumentParser("python -m tests.bench scheduled", description=__doc__)
    parser.add_argument("--formats", nargs="+", choices=FORMATS, default=FORMATS)
    parser.add_argument("--tables", nargs="+", type=int, default=(1, 5, 50))
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--archive", action="store_true")
    options = parser.parse_args(arguments)
    results: dict[str, Any] = {}
    for format_ in options.formats:
        for tables in options.tables:
            measured = _measure(format_, tables, options)
            results[f"{format_}, {tables}"] = {way: asdict(cost) for way, cost in measured.items()}
            _report(format_, tables, measured)
    result = result_path(archive=options.archive)
    result.write_text(json.dumps(results, indent=1))
    print(f"kept in {result}")
    return 0


def result_path(*, archive: bool = False) -> Path:
    """Return where the results are kept."""
    return RUN_FOLDER / f"bench-scheduled{'-archive' * archive}.json"


def _report(format_: str, tables: int, measured: dict[str, Cost]) -> None:
    ours, bare = measured["ours"], measured["bare"]
    print(
        f"{format_}, {tables} tables: clock {ours.seconds:.1f} and {bare.seconds:.1f} s "
        f"({ours.seconds / bare.seconds:.2f} ×), processor {ours.cpu:.1f} and {bare.cpu:.1f} s "
        f"({ours.cpu / bare.cpu:.2f} ×, target {_TARGET})",
        flush=True,
    )


def _measure(format_: str, tables: int, options: argparse.Namespace) -> dict[str, Cost]:
    """Return the cheapest round of each way, by the processor."""
    folder = RUN_FOLDER / f"bench-scheduled-{os.getpid()}"
    live, kept = folder / "live", folder / "changed"
    given = json.dumps({"folder": str(folder), "format": format_, "tables": tables})
    best: dict[str, Cost] = {}
    try:
        command = [sys.executable, "-m", "tests.bench.scheduled", given]
        subprocess.run(command, cwd=ROOT, check=True)
        targets = json.loads((folder / _TARGETS).read_bytes())
        ways = {
            "ours": lambda: _submit_ours(format_, folder, archive=options.archive),
            "bare": lambda: _submit_bare(format_, folder, targets, archive=options.archive),
        }
        # The first of each reads jars that no cache of the system has.
        for turn in range(options.rounds + 1):
            for way, submit in ways.items():
                shutil.rmtree(live)
                shutil.copytree(kept, live)
                cost = _measure_children(submit)
                print(f"  {format_}, {tables}, {way}: {cost}", file=sys.stderr, flush=True)
                if turn and (way not in best or cost.cpu < best[way].cpu):
                    best[way] = cost
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    return best


def _measure_children(work: Callable[[], object]) -> Cost:
    """Return what the processes that some work starts, and waits for, take."""

    def used() -> float:
        usage = resource.getrusage(resource.RUSAGE_CHILDREN)
        return usage.ru_utime + usage.ru_stime

    began, busy = time.perf_counter(), used()
    work()
    return Cost(time.perf_counter() - began, used() - busy)


def _submit_ours(format_: str, folder: Path, *, archive: bool) -> None:
    lake = CATALOG if format_ == "iceberg" else f"file://{folder}/live/lake"
    arguments = ["--staging", f"file://{folder}/live/staging", "--source", _SOURCE]
    arguments += ["--format", format_, "--lake", lake, "--threads", str(THREADS)]
    arguments += ["--report", f"file://{folder}/live/report.json"]
    packages = ["--py-files", str(build_py_files(folder))]
    kept = f"{folder}/ours.jsa" if archive else None
    _submit(format_, folder, [*packages, str(APPLICATION), *arguments], {}, kept)
    report = json.loads((folder / "live" / "report.json").read_bytes())
    assert report["status"] == "merged", report


def _submit_bare(format_: str, folder: Path, targets: list[str], *, archive: bool) -> None:
    given = {"targets": targets, "settings": _FEW, "number": _NUMBER, "threads": THREADS}
    application = str(Path(__file__).with_name("bare_merges.py"))
    kept = f"{folder}/bare.jsa" if archive else None
    _submit(format_, folder, [application, json.dumps(given)], job_settings(), kept)


def _submit(
    format_: str, folder: Path, command: list[str], more: dict[str, str], archive: str | None
) -> None:
    environment = find_environment(folder)
    warehouse = f"file://{folder}/live/lake"
    conf = join_confs(
        iceberg_conf(CATALOG, warehouse) if format_ == "iceberg" else delta_conf(),
        {
            "spark.driver.extraJavaOptions": "" if archive is None else _FIRST_COMPILER,
            "spark.jars": ",".join(map(str, spark_jars())),
            "spark.local.dir": str(folder / "spark"),
            "spark.log.level": "ERROR",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
        },
        more,
    )
    with shared_classes(archive, conf) as shared, (folder / "job.log").open("wb") as log:
        subprocess.run(
            [*environment.command(shared), *command],
            cwd=folder,
            env=os.environ | environment.variables,
            stdout=log,
            stderr=log,
            check=True,
        )


def prepare(folder: Path, format_: str, tables: int) -> None:
    """Fill a lake, stage a change of each of its tables, and keep that, and their names."""
    folder.mkdir(parents=True)
    spark = start_spark(format_, folder, memory="1g")
    try:
        bench = BenchLake(spark, format_, folder)
        small = SmallTables(bench.store, _SOURCE, tables)
        small.source.commit()
        bench.merge(_SOURCE)
        # As a lake that is merged into every few minutes.
        for number in range(3):
            small.change(small.tables, number)
            bench.merge(_SOURCE)
        small.change(small.tables, _NUMBER)
        bench.save("changed")
        targets = [bench.lake.target(*table.name) for table in small.tables]
        (folder / _TARGETS).write_text(json.dumps(targets))
    finally:
        spark.stop()


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    prepare(Path(given["folder"]), given["format"], given["tables"])
