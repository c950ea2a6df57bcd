"""Datasets that tasks give to OpenLineage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from airflow_provider_binlog.hooks.lineage import (
    StagedLineage,
    describe_merge,
    find_columns,
    lake_dataset,
    staged_dataset,
)
from airflow_provider_binlog.schema import Field
from tests.support.stores import open_store
from tests.unit.spark.history import Source
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import INT

MAIL = Field(2, "e mail", "varchar(40)", "string", True, hashed="3f1a", comment="hashed here")
FIELDS = (Field(1, "id", "int", "int32", False), MAIL)


@pytest.mark.parametrize(
    ("target", "lake", "expected"),
    [
        ("delta.`s3a://lake/tables/shop/a%2Fb`", "delta", ("s3://lake", "tables/shop/a%2Fb")),
        ("delta.`file:///data/lake/shop/orders`", "delta", ("file", "/data/lake/shop/orders")),
        ("`lake`.`orders`", "delta", ("delta://spark_catalog", "lake.orders")),
        ("`lake`.`shop`.`from`", "iceberg", ("iceberg://lake", "shop.from")),
        ("`shop`.`orders`", "postgresql", ("postgres://db:5432", "lake.shop.orders")),
    ],
)
def test_lake_tables(target: str, lake: str, expected: tuple[str, str]) -> None:
    database = ("postgres://db:5432", "lake") if lake == "postgresql" else None

    assert lake_dataset(target, lake, database) == expected


def test_what_is_staged_of_a_table_is_a_folder() -> None:
    assert staged_dataset("s3://conn@lake/staging/", "shop", ("shop", "a/b")) == (
        "s3://lake",
        "staging/shop/shop/a%2Fb",
    )
    # A database of this name has another folder than the manifests.
    assert staged_dataset("file:///staging", "shop", ("manifests", "t"))[1] != (
        "/staging/shop/manifests/t"
    )


def test_columns_and_how_they_are_staged() -> None:
    lineage = StagedLineage("shop", "s3://lake/staging", "db:3306")
    lineage.add_table(("shop", "orders"), FIELDS[:1], 3)
    lineage.add_table(("shop", "orders"), FIELDS, 4)

    described = lineage.describe()

    (source,), (staged,) = described.inputs, described.outputs
    assert (source.namespace, source.name) == ("mysql://db:3306", "shop.orders")
    columns = [(own.name, own.type, own.description) for own in source.facets["schema"].fields]
    assert columns == [("id", "int", None), ("e mail", "varchar(40)", "hashed here")]
    assert staged.outputFacets["outputStatistics"].rowCount == 7
    (origin,) = staged.facets["columnLineage"].fields["e mail"].inputFields
    assert (origin.namespace, origin.name, origin.field) == (
        "mysql://db:3306",
        "shop.orders",
        "e mail",
    )
    assert origin.transformations[0].masking
    (plain,) = staged.facets["columnLineage"].fields["id"].inputFields
    assert (plain.transformations[0].subtype, plain.transformations[0].masking) == (
        "IDENTITY",
        None,
    )


def test_files_have_no_tables_to_name() -> None:
    lineage = StagedLineage("shop", "s3://lake/staging", None)
    lineage.add_table(("shop", "orders"), FIELDS, 3)

    described = lineage.describe()

    assert described.inputs == []
    assert "columnLineage" not in described.outputs[0].facets


def test_a_merge_names_the_tables_that_it_merged() -> None:
    rows = {"inserted": 2, "updated": None, "deleted": 1}
    tables = [
        {
            "table": "shop.orders",
            "target": "`lake`.`shop`.`orders`",
            "status": "merged",
            "rows": rows,
        },
        {"table": "shop.items", "target": "`lake`.`shop`.`items`", "status": "stale", "rows": {}},
    ]

    report = {"source": "shop", "tables": tables}
    columns = {("shop", "orders"): FIELDS}

    merged = describe_merge(report, "s3://c@lake/staging", "iceberg", columns)

    assert [(one.namespace, one.name) for one in merged.inputs] == [
        ("s3://lake", "staging/shop/shop/orders")
    ]
    (lake,) = merged.outputs
    assert (lake.namespace, lake.name) == ("iceberg://lake", "shop.orders")
    assert lake.outputFacets["outputStatistics"].rowCount == 3
    fields = {own.name: own for own in lake.facets["schema"].fields}
    assert fields.keys() == {"id", "e mail"}
    (origin,) = lake.facets["columnLineage"].fields["e mail"].inputFields
    assert (origin.name, origin.field) == ("staging/shop/shop/orders", "e mail")
    # It was hashed before.
    assert origin.transformations[0].masking is None
    (unknown,) = describe_merge(report, "s3://c@lake/staging", "iceberg", {}).outputs
    assert "schema" not in unknown.facets


def test_the_name_of_a_database_may_have_a_dot() -> None:
    table = {"table": "my.shop.orders", "target": "`o`", "status": "merged", "rows": {}}
    report = {"source": "shop", "tables": [table]}

    merged = describe_merge(report, "s3://lake/s", "delta", {("my.shop", "orders"): FIELDS})

    assert [one.name for one in merged.inputs] == ["s/shop/my.shop/orders"]


def test_columns_are_those_of_the_newest_manifest_or_of_a_snapshot(tmp_path: Path) -> None:
    source = Source(open_store(f"file://{tmp_path}"), "shop")
    orders = source.create("my.shop", "orders", {"id": INT}, ("id",))
    orders.insert(id=1)
    source.commit()
    orders.alter("ADD note INT", {"id": INT, "note": INT}, note=None)
    orders.insert(id=2, note=3)
    source.commit()
    taken = take_snapshot(orders)
    before: dict[str, Any] = {
        "applied_before": {"sequence": 0, "statements": 0},
        "status": "merged",
    }
    report: dict[str, Any] = {
        "source": "shop",
        "through": 2,
        "tables": [
            before | {"table": "my.shop.orders"},
            before | {"table": "shop.old", "snapshot": taken.id},
        ],
    }

    found = find_columns(source.store, report)

    assert [own.name for own in found["my.shop", "orders"]] == ["id", "note"]
    # It was renamed once the snapshot was taken.
    assert [own.name for own in found["shop", "old"]] == [own.name for own in taken.schema.fields]
    (tmp_path / "shop/manifests/0000000000000002.json").write_text("{}")
    assert find_columns(source.store, report) == {}
