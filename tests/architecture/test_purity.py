"""The core imports on a machine that has only the standard library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

import airflow_provider_binlog

PACKAGE = Path(airflow_provider_binlog.__file__).parent
CORE = [
    "binlog",
    "sql",
    "changes.py",
    "errors.py",
    "manifest.py",
    "names.py",
    "position.py",
    "schema.py",
    "snapshot_manifest.py",
    "stored_json.py",
    "table_options.py",
]
"""Rooms and modules that need nothing but Python."""


def modules_of(room: str) -> list[str]:
    path = PACKAGE / room
    files = [path] if path.suffix else sorted(path.rglob("*.py"))
    parts = [file.relative_to(PACKAGE.parent).with_suffix("").parts for file in files]
    return [".".join(each).removesuffix(".__init__") for each in parts]


@pytest.mark.parametrize("room", [room for room in CORE if (PACKAGE / room).exists()])
def test_the_core_imports_on_a_bare_standard_library(room: str) -> None:
    modules = modules_of(room)
    # -I and -S: no PYTHONPATH, no working folder, no site-packages.
    load = f"import sys; sys.path.insert(0, {str(PACKAGE.parent)!r}); import {', '.join(modules)}"

    assert modules
    subprocess.run([sys.executable, "-I", "-S", "-c", load], check=True)
