"""Table plans: what is read, by which key, in which shape; and what is refused before that."""

from __future__ import annotations

from dataclasses import replace

import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.spark.plan.table_plan import TablePlan, plan_table
from tests.unit.spark.plans import NAME, manifest, schema, statement


def plan(*manifests: Manifest, keys: dict[TableName, tuple[str, ...]] | None = None) -> TablePlan:
    return plan_table(NAME, manifests, keys=keys or {}, dropped_before=False)


def test_parts_of_one_shape_are_read_together() -> None:
    found = plan(manifest(4, [(10, 20), (30, 40)]), manifest(5), manifest(6, [(5, 6)]))

    (shape,) = found.shapes
    assert len(shape.paths) == 3
    assert found.columns == {"id": "int", "n": "int"}
    assert (found.key, found.through, found.rows, found.exact) == (("id",), 6, 6, True)


def test_parts_from_before_a_truncate_are_not_read() -> None:
    found = plan(
        manifest(4, [(10, 20)]),
        manifest(5, [(10, 20), (30, 40), (50, 60)], (statement(35, "TRUNCATE TABLE"),)),
    )

    assert [each.first_row for each in found.parts] == [30, 50]
    assert not found.exact


def test_a_changelog_keeps_what_was_before_a_truncate() -> None:
    shapes = (schema("n", key=()),)
    found = plan(manifest(4, [(10, 20)], (statement(35, "TRUNCATE TABLE"),), shapes))

    assert found.is_changelog
    assert (found.rows, found.exact) == (2, True)
    assert list(found.target_columns)[-2:] == ["_sequence", "_absent"]


def test_the_newest_shape_is_the_targets() -> None:
    found = plan(manifest(4, [(10, 20)]), manifest(5, [(10, 20)], (), (schema("id", "m", "n"),)))

    assert list(found.columns) == ["id", "m", "n"]
    assert [list(shape.columns) for shape in found.shapes] == [["id", "n"], ["id", "m", "n"]]


@pytest.mark.parametrize(
    ("later", "says"),
    [
        (schema("id", "m"), "renamed, or dropped and added"),
        (schema("id", "n", key=("id", "n")), "primary key changed"),
        (schema("id", "n", "m", nullable=False), "has a value in rows"),
    ],
)
def test_shapes_that_do_not_go_together_are_refused(later: object, says: str) -> None:
    with pytest.raises(MergeError, match=says):
        plan(manifest(4, [(10, 20)]), manifest(5, [(10, 20)], (), (later,)))  # type: ignore[arg-type]


def test_a_dropped_column_is_left_out() -> None:
    found = plan(manifest(4, [(10, 20)]), manifest(5, [(10, 20)], (), (schema("id"),)))

    assert list(found.columns) == ["id"]


def with_images(whole: Manifest, *images: tuple[str, ...]) -> Manifest:
    return replace(whole, tables=(replace(whole.tables[0], images=images),))


def test_columns_that_the_same_images_lack_are_one_group() -> None:
    shape = schema("id", "a", "b", "c", "d")
    whole = manifest(4, [(10, 20)], (), (shape,))
    assert plan(whole).groups == ()

    found = plan(
        with_images(whole, ("id", "a", "b", "c", "d"), ("id", "a", "b", "d")),
        with_images(replace(whole, sequence=5), ("id", "d"), ("id", "a", "b", "c", "d")),
    )

    assert found.groups == (("a", "b"), ("c",))


def test_an_image_of_an_earlier_shape_may_be_a_part_of_a_later_one() -> None:
    shapes = (schema("id", "n"), schema("id", "n", "m"))

    assert plan(manifest(4, [(10, 20), (30, 40)], (), shapes)).groups == (("m",),)


def test_an_image_without_the_key_is_refused() -> None:
    keys: dict[TableName, tuple[str, ...]] = {NAME: ("n",)}
    minimal = with_images(
        manifest(4, [(10, 20)], before_images=BeforeImages.ALL), ("id", "n"), ("id",)
    )

    with pytest.raises(MergeError, match="columns=n"):
        plan(minimal, keys=keys)


@pytest.mark.parametrize("name", ["_row", "_change_type", "_sequence", "_binlog_file"])
def test_a_column_called_as_one_of_ours_is_refused(name: str) -> None:
    with pytest.raises(MergeError, match=f"column={name}"):
        plan(manifest(4, [(10, 20)], (), (schema("id", name),)))


def test_a_chosen_key_that_the_table_lacks_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="columns=x"):
        plan(manifest(4, [(10, 20)]), keys={NAME: ("x",)})


def test_another_key_needs_all_before_images() -> None:
    keys: dict[TableName, tuple[str, ...]] = {NAME: ("n",)}
    with pytest.raises(ConfigurationError, match="before_images"):
        plan(manifest(4, [(10, 20)]), keys=keys)

    found = plan(manifest(4, [(10, 20)], before_images=BeforeImages.ALL), keys=keys)

    assert (found.key, found.null_safe) == (("n",), True)


def test_an_alter_table_alone_waits_for_rows() -> None:
    assert not plan(manifest(4, [], (statement(15, "ALTER TABLE"),))).needs_commit
    assert plan(manifest(4, [], (statement(15, "TRUNCATE TABLE"),))).needs_commit
