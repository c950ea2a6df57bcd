"""Options of tables: which rule holds, what is read, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.table_options import (
    ColumnOptions,
    TableOptions,
    TableRules,
    read_term,
)

RULES = TableRules.read(
    {
        "shop.visits": {"key": ["id"]},
        "*": TableOptions(key=["day"], target="{table}"),
        "shop.*": {"target": "{database}_{table}"},
    }
)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        (("shop", "visits"), TableOptions(("id",), "{database}_{table}")),
        (("shop", "orders"), TableOptions(("day",), "{database}_{table}")),
        (("crm", "users"), TableOptions(("day",), "{table}")),
    ],
)
def test_each_field_is_that_of_the_last_rule_and_of_an_exact_name_first(
    name: tuple[str, str], options: TableOptions
) -> None:
    assert RULES.of(name) == options
    assert TableRules().of(name) == TableOptions()


def test_protected_columns_are_those_of_all_rules_that_match() -> None:
    rules = TableRules.read(
        {
            "shop.visits": {"exclude_columns": ["ip", "note"]},
            "*": {"exclude_columns": ("password", "note"), "hash_columns": ["email"]},
            "shop.*": {"target": "{table}"},
        }
    )

    assert rules.of(("shop", "visits")).exclude_columns == ("password", "note", "ip")
    assert rules.of(("shop", "visits")).hash_columns == ("email",)
    assert rules.of(("shop", "orders")).exclude_columns == ("password", "note")
    assert rules.columns == (
        ColumnOptions("shop.visits", ("ip", "note")),
        ColumnOptions("*", ("password", "note"), ("email",)),
    )
    assert [own.table for own in rules.columns] == [("shop", "visits"), None]


def test_a_database_with_a_dot_is_named_between_backticks() -> None:
    rules = TableRules.read({"`a.b`.c": {"key": ["x"]}, "a.b.d": {"key": ["y"]}})

    assert rules.of(("a.b", "c")).key == ("x",)
    assert rules.of(("a", "b.c")).key is None
    assert rules.of(("a", "b.d")).key == ("y",)
    assert rules.unmatched([("a.b", "c")]) == ["a.b.d"]


def test_rules_that_match_no_table_are_reported() -> None:
    assert RULES.unmatched([("crm", "visits")]) == ["shop.visits", "shop.*"]
    assert RULES.unmatched([("shop", "visits")]) == []


def test_the_text_of_rules_is_read_back_and_survives_a_command_line() -> None:
    rules = TableRules.read({"*": {"target": "{table}"}, "a.b{{x}}": {"key": ["{{é}}"]}})
    text = rules.to_text()

    assert TableRules.from_text(text) == rules
    # YARN would take them for variables.
    assert "{{" not in text
    assert "}}" not in text
    assert text.isprintable()


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ([], "an object by globs"),
        ({"visits": {"key": ["id"]}}, "not database.table.*table=visits"),
        ({1: {}}, "not database.table"),
        ({"shop.visits": ["id"]}, "options of a table are an object.*table=shop.visits"),
        ({"shop.visits": {"kye": ["id"]}}, "no such option.*table=shop.visits, option=kye"),
        ({"shop.visits": {"key": "id"}}, "another type.*table=shop.visits, option=key"),
        ({"shop.visits": {"key": [1]}}, "another type.*option=key"),
        ({"shop.visits": {"key": ["id", ""]}}, "a column of the key has no name"),
        ({"shop.visits": {"target": 1}}, "another type.*option=target"),
        ({"shop.*": {"target": "orders"}}, r"needs \{table\}"),
        ({"shop.visits": {"exclude_columns": "ip"}}, "another type.*option=exclude_columns"),
        ({"shop.visits": {"hash_columns": [""]}}, "a column has no name.*option=hash_columns"),
        ({"shop.*": {"mode": "scd2"}}, "mode is current, history or multiset.*given=scd2"),
        ({"shop.*": {"history_columns": ["at"]}}, "two names.*table=shop.*"),
        ({"shop.*": {"history_columns": ["at", "AT"]}}, "two names.*table=shop.*"),
        ({"shop.*": {"history_columns": ["", "until"]}}, "two names.*table=shop.*"),
        ({"shop.*": {"track_columns": [""]}}, "a column has no name.*option=track_columns"),
        ({"shop.*": {"deletes": "keep"}}, "deletes is hard, soft or ignore.*given=keep"),
        ({"shop.*": {"on_foreign_write": "fail"}}, "warn, stale or ignore.*given=fail"),
        ({"a.b": {"cluster_by": "id"}}, "another type.*table=a.b, option=cluster_by"),
        ({"a.b": {"cluster_by": ["id"], "partition_by": ["id"]}}, "not both.*table=a.b"),
        ({"a.b": {"sort_by": ["id", ""]}}, "a column has no name.*table=a.b, option=sort_by"),
        ({"a.b": {"partition_by": ["bucket(id)"]}}, "not a transform.*table=a.b.*partition_by"),
        ({"a.b": {"partition_by": ["days(4, id)"]}}, "not a transform.*table=a.b"),
        ({"a.b": {"properties": {"a": 1}}}, "another type.*table=a.b, option=properties"),
        ({"a.b": {"properties": {"binlog.key": "[]"}}}, "none of the merge's own.*table=a.b"),
    ],
)
def test_what_cannot_be_used_is_refused_by_table_and_option(wrong: Any, says: str) -> None:
    with pytest.raises(ConfigurationError, match=says):
        TableRules.read(wrong)


@pytest.mark.parametrize(
    ("text", "term"),
    [
        ("from", ("from", "", None, "")),
        ("a, b", ("a, b", "", None, "")),
        ("days(created at)", ("created at", "days", None, "")),
        ("bucket(16, id)", ("id", "bucket", 16, "")),
        ("truncate(4,name) desc", ("name", "truncate", 4, "DESC")),
        ("day asc nulls last", ("day", "", None, "ASC NULLS LAST")),
        ("desc", ("desc", "", None, "")),
    ],
)
def test_a_term_of_a_layout_is_a_column_or_what_is_taken_of_it(text: str, term: Any) -> None:
    assert read_term(text, sorts=True) == term


@pytest.mark.parametrize(
    ("format_", "option"),
    [("delta", "sort_by"), ("iceberg", "cluster_by"), ("postgresql", "sort_by")],
)
def test_a_layout_that_the_format_does_not_have_is_refused(format_: str, option: str) -> None:
    rules = TableRules.read({"shop.*": {option: ["id"]}})

    with pytest.raises(ConfigurationError, match=rf"table=shop.\*, option={option}"):
        rules.check_format(format_)


def test_what_is_not_json_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="not JSON"):
        TableRules.from_text("{")
