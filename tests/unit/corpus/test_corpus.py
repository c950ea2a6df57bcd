"""Every log of the corpus reads as the server that wrote it says."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.binlog.event_types import show_name
from airflow_provider_binlog.capture import TableFilter, extract
from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.staging.object_store import open_store
from airflow_provider_binlog.transport.files import FileSource
from tests.corpus.case import Recorded, cases, recorded
from tests.oracle.kinds import Kind
from tests.oracle.replay import Replay
from tests.oracle.workload import Effect, Table

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest

SOURCE = "corpus"

READ = [each for each in recorded() if each.case.refused is None]
REFUSED = [each for each in recorded() if each.case.refused is not None]


def stage(
    log: Recorded, folder: Path, tables: Sequence[str] = ("corpus.t",)
) -> tuple[Manifest, ...]:
    """Capture a whole log."""
    files = log.files
    flavor = Flavor.MARIADB if log.server.startswith("mariadb") else Flavor.MYSQL
    source = FileSource(files)
    extracted = extract(
        source,
        identity=SourceIdentity(flavor=flavor, server=log.server, log_name="binlog"),
        checkpoint_position=source.first_position,
        next_sequence=1,
        stop=Position(files[-1].name, files[-1].stat().st_size),
        tables=TableFilter(tables),
        store=open_store(f"file://{folder}"),
        source_name=SOURCE,
        before_images=BeforeImages.ALL,
        created_by="test",
    )
    return extracted.manifests


def rows_of(log: Recorded, folder: Path) -> list[list[str | None]]:
    """Return the rows that the staged changes come to, as the case's SELECT prints them."""
    expected = log.expected
    kind = Kind("", str, show=log.case.shown)
    table = Table("t", ("id",), kinds=defaultdict(lambda: kind))
    table.filled = defaultdict(
        lambda: None, zip(expected["columns"], expected["defaults"], strict=True)
    )
    manifests = stage(log, folder)
    for manifest in manifests:
        table.effects += [
            Effect(emptied=statement.kind.startswith("TRUNCATE"))
            for statement in manifest.statements
            if statement.kind in ("TRUNCATE TABLE", "ALTER TABLE")
        ]
    replay = Replay({"t": table})
    for manifest in manifests:
        replay.apply(open_store(f"file://{folder}"), SOURCE, manifest)
    columns = expected["columns"]
    return sorted(([row.get(name) for name in columns] for row in replay.rows["t"]), key=str)


@pytest.mark.parametrize("log", READ, ids=str)
def test_the_rows_are_those_of_select(log: Recorded, tmp_path: Path) -> None:
    assert rows_of(log, tmp_path) == log.expected["rows"]


@pytest.mark.parametrize("log", REFUSED, ids=str)
def test_what_cannot_be_read_is_refused(log: Recorded, tmp_path: Path) -> None:
    with pytest.raises(BinlogError, match=log.case.refused):
        stage(log, tmp_path)


@pytest.mark.parametrize("log", recorded(), ids=str)
def test_the_events_are_those_that_the_server_lists(log: Recorded) -> None:
    found: dict[str, list[list[Any]]] = {file.name: [] for file in log.files}
    source = FileSource(log.files)
    for block in source.blocks(source.first_position):
        places = zip(block.position.tolist(), block.type.tolist(), strict=True)
        found[block.file] += [[place, show_name(kind)] for place, kind in places]

    assert found == log.expected["events"]


def test_every_case_is_recorded() -> None:
    folders = {str(log.folder) for log in recorded()}
    there = {str(path.parent) for path in recorded()[0].folder.parent.parent.rglob("expected.json")}

    assert there == folders
    assert len({case.name for case in cases()}) >= 30
