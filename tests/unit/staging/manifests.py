"""Manifests to test with: each covers a thousand bytes of one log."""

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
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity

SERVER = "fabf987e-e54b-11f1-bec6-02fc00000001"
IDENTITY = SourceIdentity(Flavor.MYSQL, SERVER, "binlog")


def position(number: int) -> Position:
    """Return the boundary before manifest `number + 1`."""
    return Position("binlog.000001", 4 + 1000 * number, f"{SERVER}:1-{number + 1}")


def manifest(sequence: int, *, created_by: str = "run") -> Manifest:
    """Return a manifest with every kind of thing in it."""
    columns = (
        Column("id", "bigint unsigned", "decimal128(20, 0)", nullable=False),
        Column("state", "enum('new','paid')", "string", nullable=True, charset="utf8mb4"),
    )
    part = Part(
        path=f"shop/orders/{sequence:016}-000000.parquet",
        schema=0,
        rows=3,
        bytes=1234,
        sha256="0" * 64,
        first_row=1004,
        last_row=1100,
        first_commit=1_763_683_200_000_000,
        last_commit=1_763_683_201_000_000,
        changes={"insert": 2, "delete": 1},
    )
    orders = TableChanges(
        database="shop",
        table="orders",
        schemas=(Schema(columns, ("id",)),),
        images=(("id", "state"),),
        parts=(part,),
        unrepresentable={"state": 1},
    )
    statement = Statement(
        "binlog.000001", 1050, 1050, "TRUNCATE TABLE", (("shop", "ü"),), "TRUNCATE TABLE `ü`"
    )
    return Manifest(
        sequence=sequence,
        identity=IDENTITY,
        start=position(sequence - 1),
        stop=position(sequence),
        before_images=BeforeImages.KEY_CHANGES,
        include=("shop.*",),
        exclude=(),
        tables=(orders,),
        statements=(statement,),
        events={"GTID": 2, "WRITE_ROWS": 2},
        skipped_events={"UNKNOWN_200": 1},
        created_at="2026-11-21T00:00:00+00:00",
        created_by=created_by,
    )
