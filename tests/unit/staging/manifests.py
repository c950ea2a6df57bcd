"""Manifests to test with: each covers a thousand bytes of one log."""

from __future__ import annotations

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.manifest import (
    Manifest,
    Part,
    Statement,
    TableChanges,
)
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import (
    NULL,
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    Field,
    RenameField,
    RenameTable,
    RewriteRows,
    Schema,
    SetKey,
    TruncateTable,
)

SERVER = "fabf987e-e54b-11f1-bec6-02fc00000001"
IDENTITY = SourceIdentity(Flavor.MYSQL, SERVER, "binlog")
ORDERS, OTHER = "0123456789abcdef", "fedcba9876543210"
ACTIONS = (
    TruncateTable(ORDERS),
    RenameTable(ORDERS, ("shop", "old"), ("shop", "orders")),
    AddField(ORDERS, 3, "stat"),
    DropField(ORDERS, 2, "note"),
    RenameField(ORDERS, 3, "stat", "state"),
    AlterField(ORDERS, 3, "state", None, "enum('new','paid')"),
    SetKey(ORDERS, (1,)),
    RewriteRows(ORDERS, "is not understood", 3),
    RewriteRows(ORDERS, "dropped a partition"),
)
"""One of every other kind than those of the statements."""


def position(number: int) -> Position:
    """Return the boundary before manifest `number + 1`."""
    return Position("binlog.000001", 4 + 1000 * number, f"{SERVER}:1-{number + 1}")


def manifest(sequence: int, *, created_by: str = "run") -> Manifest:
    """Return a manifest with every kind of thing in it."""
    fields = (
        Field(1, "id", "bigint unsigned", "decimal128(20, 0)", nullable=False),
        Field(
            3,
            "state",
            "enum('new','paid')",
            "string",
            nullable=True,
            charset="utf8mb4",
            initial_default=Default("new"),
            write_default=NULL,
        ),
    )
    part = Part(
        path=f"shop/orders/{sequence:016}-000000.parquet",
        schema=2,
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
        id=ORDERS,
        database="shop",
        table="orders",
        dropped=False,
        created=sequence,
        schemas=(Schema(2, fields, (1,)),),
        current=2,
        last_field_id=3,
        logged=2,
        images=((1, 3),),
        parts=(part,),
        unrepresentable={"state": 1},
    )
    other = TableChanges(OTHER, "shop", "ü", True, None, (), None, 0)
    statements = (
        Statement(
            *("binlog.000001", 1010, 1010, "CREATE TABLE", "CREATE TABLE orders (...)"),
            (CreateTable(ORDERS, ("shop", "orders")), *ACTIONS),
        ),
        Statement(
            *("binlog.000001", 1050, 1050, "DROP TABLE", "DROP TABLE `ü`"),
            (DropTable(OTHER, ("shop", "ü")),),
        ),
    )
    return Manifest(
        sequence=sequence,
        identity=IDENTITY,
        start=position(sequence - 1),
        stop=position(sequence),
        before_images=BeforeImages.KEY_CHANGES,
        include=("shop.*",),
        exclude=(),
        tables=(orders, other),
        statements=statements,
        events={"GTID": 2, "WRITE_ROWS": 2},
        skipped_events={"UNKNOWN_200": 1},
        created_at="2026-11-21T00:00:00+00:00",
        created_by=created_by,
    )
