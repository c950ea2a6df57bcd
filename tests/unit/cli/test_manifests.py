"""`manifest` and `checkpoint`: what is staged is shown, verified, and returned to."""

from __future__ import annotations

import hashlib
import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.checkpoint import Checkpoint, checkpoint_key
from airflow_provider_binlog.cli import checkpoints
from airflow_provider_binlog.cli.commands import main
from airflow_provider_binlog.staging.manifest_log import ManifestLog
from airflow_provider_binlog.staging.paths import part_key
from tests.support.stores import Checkpoints, open_store
from tests.unit.staging.manifests import manifest

if TYPE_CHECKING:
    from pathlib import Path

    from airflow_provider_binlog.staging.object_store import ObjectStore

DATA = b"rows"


@pytest.fixture
def variables(monkeypatch: pytest.MonkeyPatch) -> Checkpoints:
    saved = Checkpoints()
    monkeypatch.setattr(checkpoints, "MetastoreVariableStore", lambda: saved)
    return saved


@pytest.fixture
def store(tmp_path: Path) -> ObjectStore:
    """Three manifests of a source, and their parts."""
    store = open_store(f"file://{tmp_path}")
    log = ManifestLog(store, "shop")
    for sequence in (1, 2, 3):
        staged = manifest(sequence)
        orders, other = staged.tables
        (part,) = orders.parts
        digest = hashlib.sha256(DATA).hexdigest()
        part = replace(part, bytes=len(DATA), sha256=digest)
        log.commit(replace(staged, tables=(replace(orders, parts=(part,)), other)))
        store.write(part_key("shop", part.path), DATA)
    return store


def run(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> Any:
    assert main([*arguments, "-o", "json"]) == code
    return json.loads(capsys.readouterr().out)


def test_manifests_and_their_tables_are_shown(
    store: ObjectStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    staged = run(capsys, "manifest", "show", "shop", f"file://{tmp_path}")
    tables = run(capsys, "manifest", "show", "shop", f"file://{tmp_path}", "2")

    assert [(each["manifest"], each["rows"], each["bytes"]) for each in staged] == [
        (number, 3, len(DATA)) for number in (1, 2, 3)
    ]
    assert staged[1]["start"] == staged[0]["stop"]
    assert {each["table"]: each["changes"] for each in tables} == {
        "shop.orders": {"insert": 2, "delete": 1},
        "shop.ü": {},
    }
    assert main(["manifest", "show", "shop", f"file://{tmp_path}", "7"]) == 1


def test_what_is_wrong_with_the_files_is_named(
    store: ObjectStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = ("manifest", "verify", "shop", f"file://{tmp_path}")
    assert run(capsys, *arguments) == []
    log = ManifestLog(store, "shop")
    parts = [log.load(number).tables[0].parts[0].path for number in (1, 2, 3)]
    store.write(part_key("shop", parts[0]), b"rowz")
    store.write(part_key("shop", parts[1]), b"ro")
    (tmp_path / part_key("shop", parts[2])).unlink()

    wrong = {each["path"]: each["problem"] for each in run(capsys, *arguments, code=1)}

    assert wrong == {
        parts[0]: "its SHA-256 is another one than its manifest says",
        parts[1]: "it has 2 bytes, and its manifest says 4",
        parts[2]: "it is missing",
    }
    assert run(capsys, *arguments, "3", code=1)[0]["manifest"] == 3

    (tmp_path / log.key(2)).write_bytes(b"{}")
    (unreadable, *_) = [each for each in run(capsys, *arguments, code=1) if each["manifest"] == 2]
    assert unreadable["path"] == ""


def test_nothing_staged_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["manifest", "verify", "shop", f"file://{tmp_path}"]) == 1
    assert "nothing is staged there" in capsys.readouterr().err


def test_a_checkpoint_is_rebuilt_and_rewound(
    store: ObjectStore,
    variables: Checkpoints,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    staging = f"file://{tmp_path}"
    assert main(["checkpoint", "show", "shop"]) == 1

    assert run(capsys, "checkpoint", "rebuild", "shop", staging)["manifest"] == 3
    rewound = run(capsys, "checkpoint", "rewind", "shop", staging, "--to", "1")

    stop = ManifestLog(store, "shop").load(1).stop
    assert rewound["position"] == f"{stop.file}:{stop.offset}"
    saved = Checkpoint.decode(variables[checkpoint_key("shop")])
    assert (saved.sequence, saved.position) == (1, stop)
    assert run(capsys, "checkpoint", "show", "shop") == rewound

    # The form that errors name.
    assert run(capsys, "checkpoint", "set", "shop", "--from-manifests", staging)["manifest"] == 3
    assert main(["checkpoint", "rewind", "shop", staging, "--to", "9"]) == 1
