"""The job that merges, in a process of its own, as a task submits it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from airflow_provider_binlog.spark.job.options import APPLICATION, build_py_files
from airflow_provider_binlog.spark.job.session import delta_conf, iceberg_conf
from tests.fixtures.spark import SparkEnvironment
from tests.support.spark_conf import join_confs
from tests.unit.spark.workplace import Workplace


@dataclass
class SparkJob:
    """A merge of everything that is staged.

    Attributes:
        workplace: Where it merges.
        environment: What starts it.
        folder: Of its log and its working files.
        master: Where it runs.
        home: The Spark that runs it; that of the environment where it is None.
        conf: Settings over those of the environment.
        arguments: Options of the job over those that say what is merged into which lake.
    """

    workplace: Workplace
    environment: SparkEnvironment
    folder: Path
    master: str = "local[2]"
    home: Path | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    arguments: Sequence[str] = ()

    @property
    def log(self) -> Path:
        """What its last run printed."""
        return self.folder / "job.log"

    def start(self, prepare: Callable[[], object] | None = None) -> subprocess.Popen[bytes]:
        """Start the job; `prepare` is called in its process first."""
        home = {} if self.home is None else {"SPARK_HOME": str(self.home)}
        with self.log.open("wb") as output:
            return subprocess.Popen(
                self._command(),
                cwd=self.folder,
                env=os.environ | self.environment.variables | home,
                stdout=output,
                stderr=output,
                preexec_fn=prepare,  # noqa: PLW1509  Nothing of it takes a lock.
            )

    def run(self, prepare: Callable[[], object] | None = None) -> int:
        """Run the job to its end; return its exit code."""
        return self.start(prepare).wait()

    def _command(self) -> list[str]:
        workplace = self.workplace
        format_conf = delta_conf()
        if workplace.format == "iceberg":
            warehouse = workplace.spark.conf.get(f"spark.sql.catalog.{workplace.catalog}.warehouse")
            format_conf = iceberg_conf(workplace.catalog, str(warehouse))
        conf = join_confs(self.environment.conf, format_conf) | dict(self.conf)
        command = self.environment.command(conf, self.master)
        if self.home is not None:
            command[0] = str(self.home / "bin" / self.environment.submit.name)
        command += ["--py-files", str(build_py_files(self.folder)), str(APPLICATION)]
        options = workplace.options()
        command += ["--staging", options.staging, "--source", options.source]
        return [*command, "--format", options.format, "--lake", options.lake, *self.arguments]
