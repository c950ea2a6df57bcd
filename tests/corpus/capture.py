"""What capture makes of a log of the corpus."""

from __future__ import annotations

import io
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq

from airflow_provider_binlog.capture.extract import extract
from airflow_provider_binlog.capture.log_range import TableFilter
from airflow_provider_binlog.changes import IMAGE, ROW, BeforeImages
from airflow_provider_binlog.position import SourceIdentity
from airflow_provider_binlog.staging.paths import part_key
from airflow_provider_binlog.transport.files.reader import FileBlockStream
from tests.support.requests import a_request
from tests.support.stores import open_store

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from airflow_provider_binlog.manifest import Manifest
    from airflow_provider_binlog.schema import Schema
    from airflow_provider_binlog.schema_history.statements import ServerTablesReader
    from tests.corpus.case import Recorded

SOURCE = "corpus"


@dataclass(frozen=True)
class Change:
    """One staged change row.

    Attributes:
        table: `database.table`.
        schema: Of the table, when it was logged.
        row: All that is staged of it.
        values: Those that its image has, by column.
    """

    table: str
    schema: Schema
    row: dict[str, Any]
    values: dict[str, Any]


def stage(
    log: Recorded,
    folder: Path,
    tables: Sequence[str] = ("corpus.t",),
    *,
    read_server_tables: ServerTablesReader | None = None,
) -> tuple[Manifest, ...]:
    """Capture a whole log."""
    source = FileBlockStream(log.files)
    extracted = extract(
        a_request(
            source.first_position,
            log.end,
            identity=SourceIdentity(flavor=log.flavor, server=log.server, log_name="binlog"),
            tables=TableFilter(tables),
            source_name=SOURCE,
            before_images=BeforeImages.ALL,
            created_by="test",
            read_server_tables=read_server_tables,
        ),
        source,
        open_store(f"file://{folder}"),
    )
    return extracted.manifests


def capture(
    log: Recorded, folder: Path, *, read_server_tables: ServerTablesReader | None = None
) -> list[Change]:
    """Return the changes of all tables of a log, in their order."""
    return read_changes(stage(log, folder, ["*.*"], read_server_tables=read_server_tables), folder)


def read_changes(manifests: Sequence[Manifest], folder: Path) -> list[Change]:
    """Return the staged changes of all tables, in their order."""
    store = open_store(f"file://{folder}")
    found = []
    for table in (table for manifest in manifests for table in manifest.tables):
        name = f"{table.database}.{table.table}"
        for part in table.parts:
            rows = pq.read_table(io.BytesIO(store.read(part_key(SOURCE, part.path))))
            for row in rows.to_pylist():
                image = table.images[row[IMAGE]]
                schema = table.schema(part.schema)
                values = {each.name: row[each.name] for each in schema.fields if each.id in image}
                found.append(Change(name, schema, row, values))
    return sorted(found, key=lambda change: int(change.row[ROW]))
