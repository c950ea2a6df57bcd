"""Datasets that tasks give to OpenLineage."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.hooks.lineage import (
    StagedLineage,
    describe_merge,
    lake_dataset,
    staged_dataset,
)
from airflow_provider_binlog.schema import Field

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

    merged = describe_merge(
        {"source": "shop", "tables": tables}, "s3://c@lake/staging", "iceberg", None
    )

    assert [(one.namespace, one.name) for one in merged.inputs] == [
        ("s3://lake", "staging/shop/shop/orders")
    ]
    (lake,) = merged.outputs
    assert (lake.namespace, lake.name) == ("iceberg://lake", "shop.orders")
    assert lake.outputFacets["outputStatistics"].rowCount == 3
