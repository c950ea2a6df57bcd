"""`sync` keeps its checkpoint in a file, and says what a machine lacks before it reads anything."""

from __future__ import annotations

import importlib.metadata
from argparse import Namespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.cli import sync as module
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.cli.sync import FileCheckpoints, Lake
from airflow_provider_binlog.errors import ConfigurationError
from tests.contract.checkpoint import CheckpointStoreCases
from tests.support.stores import open_store

if TYPE_CHECKING:
    from pathlib import Path


class TestFileCheckpoints(CheckpointStoreCases):
    """Files of a folder."""

    @pytest.fixture
    def checkpoints(self, tmp_path: Path) -> FileCheckpoints:
        return FileCheckpoints(open_store(f"file://{tmp_path}"))


def arguments(folder: Path, **changes: Any) -> Namespace:
    return Namespace(**{"to": str(folder), "format": "delta", "conf": None} | changes)


def test_the_settings_of_spark_are_those_of_the_format_and_the_users(tmp_path: Path) -> None:
    delta = Lake.open(arguments(tmp_path / "a b"))
    named = Lake.open(arguments(tmp_path, conf=["spark.jars=x.jar", "spark.driver.memory=4g"]))

    assert module.spark_conf(delta)["spark.jars.packages"].startswith("io.delta:delta-spark_4.1")
    assert delta.arguments[-1] == f"file://{tmp_path}/a b"
    conf = module.spark_conf(named)
    assert (conf["spark.jars"], conf["spark.driver.memory"]) == ("x.jar", "4g")
    assert "spark.jars.packages" not in conf
    with pytest.raises(ConfigurationError, match="NAME=VALUE"):
        Lake.open(arguments(tmp_path, conf=["spark.jars"]))


def test_what_the_machine_lacks_is_said_before_a_server_is_reached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail() -> str:
        words = ["sync", "mysql://127.0.0.1:1", "--to", str(tmp_path)]
        assert main(words) == 1
        return capsys.readouterr().err

    monkeypatch.setattr(module, "find_spark_submit", lambda: None)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "pip install 'airflow-provider-binlog[local-spark]'" in fail()

    monkeypatch.setattr(module, "find_spark_submit", lambda: "/spark-submit")
    assert "Java 17 or newer" in fail()

    monkeypatch.setenv("JAVA_HOME", "/java")
    monkeypatch.setattr(importlib.metadata, "version", lambda _: "4.0.1")
    assert "'pyspark==4.1.*'" in fail()
