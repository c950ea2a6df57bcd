"""What a lake has otherwise than SELECT is named once, with its number."""

from __future__ import annotations

from dataclasses import replace

from airflow_provider_binlog.operators.table_notes import (
    count_replaced,
    describe_keyless,
    describe_replaced,
    describe_staged,
)
from airflow_provider_binlog.table_options import ColumnOptions
from tests.unit.spark.plans import manifest, schema, table

KEYLESS = table(((1, 2),), schema("at", "page", key=()), id_="a", name=("my.shop", "visits"))
KEYED = replace(
    table(((1, 2),), schema("id", "born", key=("id",)), id_="b", name=("shop", "customers")),
    unrepresentable={"born": 1_000},
    invalid_text={"note": 2},
)


def test_values_are_counted_over_all_manifests() -> None:
    _, replaced = describe_staged([manifest(1, KEYLESS, KEYED), manifest(2, KEYED)])

    assert replaced.endswith("by column: shop.customers.born 2,000, shop.customers.note 4")


def test_tables_and_columns_that_earlier_lines_named_are_left_out() -> None:
    named: set[tuple[str, ...]] = set()
    options = (ColumnOptions("shop.customers", ("mail",)),)
    first = replace(manifest(1, KEYLESS, KEYED), columns=options)
    other = replace(KEYED, unrepresentable={"born": 1, "died": 1})

    assert len(describe_staged([first], named)) == 3
    (line,) = describe_staged([replace(first, tables=(KEYLESS, other))], named)
    assert line.endswith("by column: shop.customers.died 1")


def test_a_keyless_table_is_named_when_it_is_first_seen_or_altered() -> None:
    first, later = manifest(1, KEYLESS), manifest(2, replace(KEYLESS, changed=False))

    assert [line.rpartition(": ")[2] for line in describe_staged([first])] == ["`my.shop`.visits"]
    assert describe_staged([later]) == []
    assert describe_staged([manifest(1, replace(KEYLESS, dropped=True))]) == []


def test_columns_that_options_name_and_tables_lack_are_named() -> None:
    staged = manifest(1, table([], schema("id", "n")))
    options = (
        ColumnOptions("shop.orders", ("N", "pasword"), ("mail",)),
        ColumnOptions("*", ("x",)),
    )

    (line,) = describe_staged([replace(staged, columns=options)])
    assert line.endswith("see them: shop.orders (pasword, mail)")
    assert describe_staged([replace(staged, columns=options[1:])]) == []


def test_many_tables_are_one_line() -> None:
    line = describe_keyless([("shop", f"t{number:03}") for number in range(500)])

    assert line.endswith("shop.t018, shop.t019 and 480 more")


def test_parts_of_a_snapshot_are_counted() -> None:
    parts = [replace(part, replaced={"born": 3}) for part in KEYED.parts * 2]

    assert count_replaced(parts) == {"born": 6}
    assert describe_replaced({("shop", "t"): count_replaced(KEYED.parts)}) == ""
