"""Keys: safe everywhere, one for each name, and names of any kind go in."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ConfigurationError, StagingError
from airflow_provider_binlog.staging.paths import (
    decode_name,
    encode_name,
    manifest_folder,
    manifest_name,
    maybe_sequence,
    part_key,
    part_path,
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
    assert decode_name(encoded) == name


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
    assert decode_name(encode_name(name)) == name


def test_a_long_name_is_cut_and_stays_unlike_others() -> None:
    one, other = encode_name("表" * 63 + "一"), encode_name("表" * 64)

    assert len(one) <= 200
    assert one != other
    assert one.startswith("%E8%A1%A8" * 18)
    assert re.fullmatch(r"(%[0-9A-F]{2})+~[0-9a-f]{32}", one)
    with pytest.raises(StagingError, match="manifest"):
        decode_name(one)


def test_a_name_is_needed() -> None:
    with pytest.raises(ConfigurationError):
        encode_name("")


def test_layout() -> None:
    path = part_path("shop", "a/b", 42, 7, "9f86d081884c")

    assert path == "shop/a%2Fb/0000000000000042-000007-9f86d081884c.parquet"
    assert part_key("my shop", path) == f"my%20shop/{path}"
    assert manifest_folder("my shop") == "my%20shop/manifests"


@pytest.mark.parametrize("database", ["manifests", "Manifests", "MANIFESTS"])
def test_a_database_called_manifests_has_another_folder(database: str) -> None:
    folder = part_path(database, "t", 1, 0, "9f86d081884c").partition("/")[0]

    assert folder.casefold() != "manifests"
    assert decode_name(folder) == database


@given(st.integers(1, 10**16 - 1), st.integers(1, 10**16 - 1))
def test_manifests_sort_as_their_numbers(one: int, other: int) -> None:
    assert (manifest_name(one) < manifest_name(other)) == (one < other)
    assert maybe_sequence(manifest_name(one)) == one


@pytest.mark.parametrize("sequence", [0, -1, 10**16])
def test_refuses_numbers_without_a_name(sequence: int) -> None:
    with pytest.raises(StagingError, match="sequence"):
        manifest_name(sequence)


@pytest.mark.parametrize("ordinal", [-1, 10**6])
def test_refuses_ordinals_that_would_not_sort(ordinal: int) -> None:
    with pytest.raises(StagingError, match="ordinal"):
        part_path("d", "t", 1, ordinal, "9f86d081884c")


@pytest.mark.parametrize(
    "name",
    ["42.json", "0000000000000042.json.tmp", "0000000000000042", "x", "\u0660" * 16 + ".json"],
)
def test_other_files_are_no_manifests(name: str) -> None:
    assert maybe_sequence(name) is None
