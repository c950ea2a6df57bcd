"""Layout and properties of lake tables: of new ones as the options say, of others reported."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.operators.merge_report import list_warnings
from airflow_provider_binlog.table_options import TableRules
from tests.unit.spark.staged_changes import INT, TEXT
from tests.unit.spark.workplace import Workplace, in_either_format, report_of

if TYPE_CHECKING:
    from tests.unit.spark.history import Table


LAYOUTS: dict[str, dict[str, Any]] = {
    "delta": {"cluster_by": ["a b", "id"]},
    "iceberg": {
        "partition_by": ["bucket(4, id)", "truncate(2, a b)"],
        "sort_by": ["a b DESC NULLS LAST", "bucket(8, id)"],
    },
}
OTHERS: dict[str, dict[str, Any]] = {
    "delta": {"cluster_by": ["id"]},
    "iceberg": {"partition_by": ["id"], "sort_by": ["id"]},
}
PROPERTIES = {
    "delta": {
        "delta.enableChangeDataFeed": "true",
        "delta.logRetentionDuration": "interval 9 days",
    },
    "iceberg": {"format-version": "3", "write.parquet.compression-codec": "snappy"},
}


def make_table(workplace: Workplace) -> Table:
    """Return a table with a row."""
    columns = {"id": INT, "a b": TEXT}
    table = workplace.new_source().create(workplace.database, "t", columns, ("id",))
    table.insert(id=1, **{"a b": "one"})
    return table


def change(table: Table, note: str) -> None:
    table.update(1, **{"a b": note})
    table.source.commit()


def rules(*given: dict[str, Any]) -> TableRules:
    return TableRules.read({"*": {name: value for each in given for name, value in each.items()}})


def layout_in(workplace: Workplace, table: Table) -> list[Any]:
    """Return what the format itself says of a table's layout."""
    target = workplace.target(table)
    if workplace.format == "delta":
        (detail,) = workplace.spark.sql(f"DESCRIBE DETAIL {target}").collect()
        return [name.strip("`") for name in detail["clusteringColumns"]]
    rows = workplace.spark.sql(f"DESCRIBE EXTENDED {target}").collect()
    parts = [row["data_type"] for row in rows if row["col_name"].startswith("Part ")]
    order = workplace.spark.sql(f"SHOW TBLPROPERTIES {target} ('sort-order')").collect()
    return [*parts, order[0]["value"]]


EXPECTED = {
    "delta": ["a b", "id"],
    "iceberg": [
        "bucket(4, id)",
        "truncate(2, `a b`)",
        "a b DESC NULLS LAST, bucket(8, id) ASC NULLS FIRST",
    ],
}


def test_a_new_table_has_the_layout_and_others_keep_theirs(workplace: Workplace) -> None:
    table, format_ = make_table(workplace), workplace.format
    options = rules(LAYOUTS[format_], {"properties": PROPERTIES[format_]})
    workplace.follow(table, table_options=options)

    assert layout_in(workplace, table) == EXPECTED[format_]
    assert PROPERTIES[format_].items() <= workplace.state(table).properties.items()
    change(table, "two")
    (report,) = workplace.merge(table_options=options).tables
    assert report.layout == ""

    change(table, "three")
    report_json = report_of(workplace.merge(table_options=rules(OTHERS[format_])).to_json())
    (warning,) = list_warnings(report_json)
    for name, terms in OTHERS[format_].items():
        assert f"{name}=({', '.join(terms)})" in warning
        assert f"made with {next(iter(LAYOUTS[format_]))}=(" in warning
    assert layout_in(workplace, table) == EXPECTED[format_]
    change(table, "four")
    (report,) = workplace.merge(table_options=rules(OTHERS[format_])).tables
    assert report.layout == ""
    workplace.check(table)


@in_either_format
def test_an_existing_table_gets_properties_and_refused_ones_are_reported(
    workplace: Workplace,
) -> None:
    table, format_ = make_table(workplace), workplace.format
    workplace.follow(table)

    change(table, "two")
    (report,) = workplace.merge(table_options=rules({"properties": PROPERTIES[format_]})).tables
    assert report.layout == ""
    assert PROPERTIES[format_].items() <= workplace.state(table).properties.items()

    refused = {"delta": ("delta.columnMapping.mode", "none"), "iceberg": ("format-version", "1")}
    change(table, "three")
    options = rules({"properties": dict([refused[format_]])})
    (report,) = workplace.merge(table_options=options).tables
    assert report.status == "merged"
    assert f"properties could not be set ({refused[format_][0]})" in report.layout
    change(table, "four")
    (report,) = workplace.merge(table_options=options).tables
    assert report.layout == ""
    workplace.check(table)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"partition_by": ["nope"]}, "option=partition_by, columns=nope"),
        ({"partition_by": ["foo(id)"]}, "option=partition_by, columns=foo(id)"),
    ],
)
def test_a_layout_by_columns_that_are_not_there_is_refused(
    quick_workplace: Workplace, options: dict[str, Any], says: str
) -> None:
    table = make_table(quick_workplace)
    table.source.commit()

    failed = quick_workplace.failure(table_options=rules(options))

    assert not failed.retryable
    assert says in str(failed.error)
    quick_workplace.merge(table_options=rules({"partition_by": ["id"]}))
    quick_workplace.check(table)


def test_a_merge_killed_before_the_sort_order_leaves_it_to_the_next(
    quick_workplace: Workplace,
) -> None:
    workplace, options = quick_workplace, rules(LAYOUTS["iceberg"])
    table = make_table(workplace)
    table.source.commit()
    workplace.merge_killed("overwrite", table_options=options)

    workplace.merge(table_options=options)

    assert layout_in(workplace, table) == EXPECTED["iceberg"]
    workplace.check(table)
