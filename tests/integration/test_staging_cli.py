"""What is staged by hand is what `plan` has announced, and what a DAG's tasks continue."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.changes import ZeroDates
from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key
from airflow_provider_binlog.cli import checkpoints, servers, staging
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import manifest_folder, manifest_name
from tests.fixtures.mysql import Database, execute
from tests.services.servers import Server
from tests.support.stores import Checkpoints, open_store

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.server


def assert_checkpoints_are_checked(
    run: Callable[..., Any], address: str, variables: dict[str, str]
) -> None:
    saved = Checkpoint.decode(variables[checkpoint_key("shop")])
    beyond = replace(saved.position, offset=1 << 40)
    variables[checkpoint_key("lost")] = replace(saved, position=beyond).encode()

    shop = {each["check"]: each for each in run("check", address, "--source", "shop")}
    lost = {each["check"]: each for each in run("check", address, "--source", "lost", code=1)}

    assert shop["checkpoint"]["found"].startswith(str(saved.position))
    assert {shop[check]["level"] for check in ("checkpoint", "head-room")} == {"ok"}
    assert lost["checkpoint"]["level"] == "error"
    assert "after the end of its file" in lost["checkpoint"]["why"]
    assert "troubleshooting.md#foreignpositionerror" in lost["checkpoint"]["why"]


def test_a_range_and_snapshots_are_staged_by_hand(
    mysql97: Server,
    create_database: Callable[[Server], Database],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    variables, path = Checkpoints(), f"file://{tmp_path}"
    for module in (checkpoints, servers, staging):
        monkeypatch.setattr(module, "MetastoreVariableStore", lambda: variables)
    database = create_database(mysql97)
    name = database.name
    user = f"hand{name}"[:32]
    address = f"mysql://{user}:p@{mysql97.host}:{mysql97.port}"
    globs = ("--conn", address, "--tables", f"{name}.*")

    def run(*words: str, code: int = 0) -> Any:
        capsys.readouterr()
        assert main([*words, "-o", "json"]) == code
        return json.loads(capsys.readouterr().out)

    execute(
        mysql97,
        f"CREATE USER {user} IDENTIFIED BY 'p'",
        f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {user}",
        f"GRANT SELECT ON `{name}`.* TO {user}",
    )
    try:
        for table in ("`a/b`", "keyless"):
            key = "PRIMARY KEY" if table != "keyless" else ""
            database.execute(f"CREATE TABLE {table} (id INT {key}, `from` TEXT)")
        assert main(["extract", "shop", path, *globs]) == 1
        assert "choose where to begin" in capsys.readouterr().err
        run("extract", "shop", path, *globs, "--start", "now")
        database.execute("INSERT INTO `a/b` VALUES (1, 'x'), (2, 'y')")

        planned, *needed = run("plan", "shop", path, *globs)
        staged = run("extract", "shop", path, *globs)

        assert [each["table"] for each in needed] == [f"{name}.a/b", f"{name}.keyless"]
        assert staged["stop"].startswith(planned["stop"])
        log = ManifestLog(open_store(path), "shop")
        manifest = log.latest()
        assert manifest is not None
        assert (staged["manifests"][-1], staged["rows"]) == (manifest.sequence, 2)
        assert planned["bytes"] == manifest.stop.offset - log.load(1).start.offset
        assert run("manifest", "verify", "shop", path) == []

        # The next run passes it on once the checkpoint is past it, and stages what follows it.
        assert Checkpoint.decode(variables[checkpoint_key("shop")]).sequence == 0
        assert run("plan", "shop", path, *globs)[0]["start"] == staged["stop"]
        run("checkpoint", "rebuild", "shop", path)
        status = run("status", address, "--source", "shop")
        assert (status["manifest"], status["checkpoint"]) == (manifest.sequence, planned["stop"])
        assert status["head-room seconds"] > 0
        assert_checkpoints_are_checked(run, address, variables)

        # Without LOCK TABLES a table without a key cannot be read; the other one is.
        read, unread = run("snapshot", "shop", path, *globs, code=1)
        assert (read["rows"], read["problem"]) == (2, "")
        assert "GRANT LOCK TABLES, SELECT" in unread["problem"]
        execute(mysql97, f"GRANT LOCK TABLES ON `{name}`.* TO {user}")
        assert [each["rows"] for each in run("snapshot", "shop", path, *globs)] == [2, 0]
        left = {each["table"] for each in run("plan", "shop", path, *globs)}
        assert left == {""}

        # Values are staged as in the newest manifest.
        file = tmp_path / manifest_folder("shop") / manifest_name(manifest.sequence)
        file.write_bytes(replace(manifest, zero_dates=ZeroDates.TEXT).encode())
        database.execute("INSERT INTO `a/b` VALUES (3, 'z')")
        (*_, newest) = run("extract", "shop", path, *globs)["manifests"]
        assert log.load(newest).zero_dates is ZeroDates.TEXT
    finally:
        execute(mysql97, f"DROP USER {user}")
