"""Keys: safe everywhere, one for each name, and names of any kind go in."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.snapshot_manifest import snapshot_part_path
from airflow_provider_binlog.staging.paths import (
    manifest_folder,
    manifest_name,
    maybe_sequence,
    part_key,
    part_path,
    part_sequence,
)

names = st.text(min_size=1, max_size=64).filter(lambda name: name.isprintable() or name)


def test_layout() -> None:
    path = part_path("shop", "a/b", 42, 7, "9f86d081884c")

    assert path == "shop/a%2Fb/0000000000000042-000007-9f86d081884c.parquet"
    assert part_sequence(path) == 42
    assert part_key("my shop", path) == f"my%20shop/{path}"
    assert manifest_folder("my shop") == "my%20shop/manifests"


@pytest.mark.parametrize("database", ["manifests", "Manifests", "MANIFESTS"])
def test_a_database_called_manifests_has_another_folder(database: str) -> None:
    folder = part_path(database, "t", 1, 0, "9f86d081884c").partition("/")[0]

    assert folder.casefold() != "manifests"
    assert unquote(folder) == database


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


def test_parts_of_snapshots_have_the_number_of_no_manifest() -> None:
    assert part_sequence(snapshot_part_path("20261122T000000.000000Z-1f0b6c2ad0e4", 7, "a")) == 0


@pytest.mark.parametrize("path", ["42-000007-a.parquet", "0000000000000042.json", "t/", ""])
def test_no_number_is_read_from_other_names(path: str) -> None:
    with pytest.raises(StagingError, match="not the path of a part"):
        part_sequence(path)


@pytest.mark.parametrize(
    "name",
    ["42.json", "0000000000000042.json.tmp", "0000000000000042", "x", "\u0660" * 16 + ".json"],
)
def test_other_files_are_no_manifests(name: str) -> None:
    assert maybe_sequence(name) is None
