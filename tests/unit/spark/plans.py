"""Manifests to plan with: parts are places only, no file is written."""

from __future__ import annotations

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.manifest import (
    Column,
    Manifest,
    Part,
    Schema,
    Statement,
    TableChanges,
)
from airflow_provider_binlog.position import Position
from tests.unit.spark.history import IDENTITY, LOG

NAME = ("shop", "orders")


def schema(*names: str, key: tuple[str, ...] = ("id",), nullable: bool = True) -> Schema:
    columns = (Column(name, "int", "int32", nullable and name not in key) for name in names)
    return Schema(tuple(columns), key)


def part(sequence: int, first: int, last: int, shape: int = 0) -> Part:
    path = f"shop/orders/{sequence:016d}-{first:06d}.parquet"
    return Part(path, shape, 2, 100, "", first, last, 0, 0, {"insert": 2})


def statement(row: int, kind: str, text: str = "", *names: tuple[str, str]) -> Statement:
    return Statement(LOG, row, row, kind, names or (NAME,), text or f"{kind} orders")


def manifest(
    sequence: int,
    rows: list[tuple[int, int]] | None = None,
    statements: tuple[Statement, ...] = (),
    schemas: tuple[Schema, ...] = (schema("id", "n"),),
    before_images: BeforeImages = BeforeImages.KEY_CHANGES,
) -> Manifest:
    """Return a manifest with a part for each (first row, last row); the last has the last shape."""
    parts = [part(sequence, *each) for each in rows or []]
    if parts:
        parts[-1] = part(sequence, *(rows or [])[-1], shape=len(schemas) - 1)
    images = tuple(tuple(column.name for column in each.columns) for each in schemas)
    return Manifest(
        sequence=sequence,
        identity=IDENTITY,
        start=Position(LOG, 1000 * sequence),
        stop=Position(LOG, 1000 * (sequence + 1)),
        before_images=before_images,
        include=("*.*",),
        exclude=(),
        tables=(TableChanges(*NAME, schemas, images, tuple(parts)),) if parts else (),
        statements=statements,
        events={},
        skipped_events={},
        created_at="",
        created_by="",
    )
