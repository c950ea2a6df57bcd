"""What a stranger installs with the README's commands is a provider that Airflow loads."""

from __future__ import annotations

import os
import re
import shlex
import sys
from typing import TYPE_CHECKING

import pytest

from tests.services.cache import cache_root
from tests.services.progress import run
from tests.unit.test_docs import ROOT, blocks

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]

SECTIONS = "from airflow_provider_binlog.plugins.help import read_sections; print(*read_sections())"
"""They are a page of the docs, which the wheel has."""


def installs() -> list[list[str]]:
    """Return the README's two commands, with the tests' constraints in place of Airflow's."""
    text = "\n".join(blocks("README.md", "shell")).replace("\\\n", " ")
    commands = re.findall(r"^pip (install 'apache-airflow==.*)$", text, re.MULTILINE)
    return [
        [
            "tests/constraints.txt" if word.startswith("https:") else word
            for word in shlex.split(command, comments=True)
        ]
        for command in commands
    ]


def test_airflow_loads_what_the_readme_installs(tmp_path: Path) -> None:
    programs = tmp_path / "venv" / "bin"
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    env |= {"AIRFLOW_HOME": str(tmp_path / "airflow")}
    run([sys.executable, "-m", "venv", "--without-pip", programs.parent])
    pip: list[str | Path] = [sys.executable, "-m", "pip", "--python", programs / "python"]
    wheels: list[str | Path] = [
        "--no-compile",
        "--no-index",
        "--find-links",
        cache_root() / "wheels",
    ]

    first, second = installs()
    run([*pip, *first, *wheels], env=env, folder=ROOT)
    run([*pip, *second, *wheels], env=env, folder=ROOT)

    def show(*words: str) -> str:
        return run([programs / words[0], *words[1:]], env=env, folder=tmp_path)

    assert "No broken requirements" in run([*pip, "check"], env=env)
    assert re.search(r"airflow-provider-binlog .* \d+\.\d+", show("airflow", "providers", "list"))
    assert re.search(r"^binlog ", show("airflow", "plugins"), re.MULTILINE)
    assert "checkpoint" in show("airflow", "binlog", "--help")
    assert "PositionPurgedError" in show("python", "-c", SECTIONS)
