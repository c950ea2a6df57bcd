"""Row images: sets of field ids that are numbered manifest by manifest, as sets of one schema."""

from __future__ import annotations

from airflow_provider_binlog.spark.staged.parts import RowImages, find_images
from tests.unit.spark.plans import column, schema

ID_N_M = schema("id", "n", "m")


def test_images_of_many_manifests_are_numbered_once() -> None:
    listed = {4: [(1, 2, 3), (1,)], 6: [(1,), (1, 3), (1, 3, 9), (1, 2, 3)]}

    found = find_images(ID_N_M, listed)

    sets = (frozenset({"id", "n", "m"}), frozenset({"id"}), frozenset({"id", "m"}))
    assert found == RowImages(4, ((0, 1), (), (1, 2, 2, 0)), sets)
    assert found.holds("m") == (True, False, True)


def test_whole_images_need_no_numbers() -> None:
    assert find_images(schema("id", "n"), {4: [(1, 2)], 5: [(2, 1, 9)]}) is None


def test_images_are_those_of_fields_and_not_of_names() -> None:
    other = schema("id", column(9, "n"))

    found = find_images(other, {4: [(1, 2)]})

    assert found is not None
    assert found.sets == (frozenset({"id"}),)
