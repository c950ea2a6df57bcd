"""The merge job, killed when the last table is committed and nothing noted about it yet."""

from __future__ import annotations

import os
import signal
import sys
from typing import Any
from unittest.mock import patch

from airflow_provider_binlog.spark.job import application as merge_job
from airflow_provider_binlog.spark.merge import run as merge_run


def _die(*arguments: Any) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


if __name__ == "__main__":
    patch.object(merge_run, "save_progress", _die).start()
    sys.exit(merge_job.main())
