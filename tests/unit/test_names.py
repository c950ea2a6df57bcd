"""Encoded names: safe everywhere, one for each name, and names of any kind are accepted."""

from __future__ import annotations

import re
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import (
    GlobMatcher,
    encode_name,
    find_unmatched,
    fold_name,
    join_table_name,
    matches_globs,
    quote_identifier,
    read_table_name,
    split_table_name,
)

NAMES = [
    ("orders", "orders"),
    ("Orders", "Orders"),
    ("order-lines_2.old", "order-lines_2.old"),
    ("a/b", "a%2Fb"),
    ("a%2Fb", "a%252Fb"),
    ("x:y", "x%3Ay"),
    ("50%", "50%25"),
    (" ", "%20"),
    (".", "%2E"),
    ("..", "%2E."),
    ("_hidden", "%5Fhidden"),
    ("{a,b}*?[c]", "%7Ba%2Cb%7D%2A%3F%5Bc%5D"),
    ("#sql-~1", "%23sql-%7E1"),
    ("ü", "%C3%BC"),
    ("u\u0308", "u%CC%88"),
    ("表", "%E8%A1%A8"),
]

names = st.text(min_size=1, max_size=64).filter(lambda name: name.isprintable() or name)


@pytest.mark.parametrize(("name", "encoded"), NAMES)
def test_encodes_and_decodes(name: str, encoded: str) -> None:
    assert encode_name(name) == encoded
    assert unquote(encoded) == name


@given(names, names)
def test_different_names_are_encoded_differently(one: str, other: str) -> None:
    assert (encode_name(one) == encode_name(other)) == (one == other)


@given(names)
def test_every_encoded_name_is_safe(name: str) -> None:
    encoded = encode_name(name)

    assert re.fullmatch(r"[A-Za-z0-9%-][A-Za-z0-9%._~-]*", encoded)
    assert len(encoded) <= 200


@given(names.filter(lambda name: len(name.encode()) <= 66))
def test_short_names_decode(name: str) -> None:
    assert unquote(encode_name(name)) == name


def test_a_long_name_is_cut_and_stays_unlike_others() -> None:
    one, other = encode_name("表" * 63 + "一"), encode_name("表" * 64)

    assert len(one) <= 200
    assert one != other
    assert one.startswith("%E8%A1%A8" * 18)
    assert re.fullmatch(r"(%[0-9A-F]{2})+~[0-9a-f]{32}", one)


def test_a_name_is_needed() -> None:
    with pytest.raises(ConfigurationError):
        encode_name("")


def test_a_backtick_stays_inside() -> None:
    assert quote_identifier("a`b") == "`a``b`"


def test_a_name_matches_what_is_included_and_not_excluded() -> None:
    assert matches_globs("shop.orders", ["blog.*", "shop.*"], ["shop.log"])
    assert not matches_globs("shop.log", ["shop.*"], ["shop.log"])
    assert not matches_globs("Shop.orders", ["shop.*"])
    assert not matches_globs("shop.orders", [])


def test_names_are_folded_character_by_character() -> None:
    same = [{"ΟΔΟΣ", "οδοσ", "οδος"}, {"İx", "IX", "ix", "iX"}, {"Straße"}, {"STRASSE"}]
    folded = [{fold_name(name) for name in names} for names in same]

    assert [len(each) for each in folded] == [1] * len(same)
    assert len(set[str]().union(*folded)) == len(same)


@pytest.mark.parametrize("glob", ["shop.orders", "shop.*", "shop.order?", "*[rt]s", "a[b]", "[["])
@pytest.mark.parametrize("name", ["shop.orders", "Shop.orders", "shop.*", "a[b]", "ab", "[["])
def test_many_globs_match_as_each_of_them_does(glob: str, name: str) -> None:
    found = matches_globs(name, [glob])

    assert GlobMatcher(["x", glob, "y*"])(name) == found
    assert find_unmatched([glob, "x"], [name, "y"]) == [*[glob] * (not found), "x"]


@pytest.mark.parametrize(
    "name", [("shop", "orders"), ("shop", "a.b"), ("a.b", "c"), ("a`.b", "`c`"), ("`", "`.`.")]
)
def test_the_name_of_a_table_is_read_as_it_is_written(name: tuple[str, str]) -> None:
    assert split_table_name(join_table_name(name)) == name


@pytest.mark.parametrize("table", ["", "orders", ".orders", "shop.", None, 7])
def test_a_table_has_a_database_and_a_name(table: object) -> None:
    with pytest.raises(ConfigurationError, match="table is the name of one table"):
        read_table_name(table)


def test_a_name_may_contain_dots() -> None:
    assert read_table_name("shop.orders.2024") == ("shop", "orders.2024")
    assert read_table_name("`my.shop`.orders") == ("my.shop", "orders")
