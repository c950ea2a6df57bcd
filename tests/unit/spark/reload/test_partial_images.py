"""Random histories around snapshots read in chunks, of images that lack columns: equal, or refused.

The plan and the merge are the real ones. Files, rows and the lake are in memory; the collapse is
that of `plain_collapse.py`, which Spark's is compared with in `collapse/test_partial_rows.py`.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from airflow_provider_binlog.spark.job.options import MergeOptions
from airflow_provider_binlog.spark.merge.run import merge_into
from airflow_provider_binlog.spark.merge.table_merge import Lake
from tests.support.memory_target import MemoryTarget
from tests.unit.spark.history import RowImage
from tests.unit.spark.lake_in_memory import (
    MemoryRows,
    SnapshotInMemory,
    StagedInMemory,
)
from tests.unit.spark.memory_files import Files
from tests.unit.spark.staged_changes import INT, LONG_TEXT, TEXT

KEYS = 6
NOTE = replace(TEXT, nullable=True)


class Window:
    """A table that is written before, between and after the chunks of its snapshot."""

    def __init__(self, seed: int, images: list[RowImage], moves: float) -> None:
        self.chance, self.moves, self.images = random.Random(seed), moves, images
        self.files = Files()
        self.source = StagedInMemory(self.files)
        self.target = MemoryTarget()
        types = {"id": INT, "a": NOTE, "b": NOTE, "c": LONG_TEXT}
        self.table = self.source.create("shop", "t", types, ("id",), logged=False)
        self.table.identity.part_rows = self.chance.choice([1, 2, 1000])
        for key in self.chance.sample(range(KEYS), self.chance.randint(0, KEYS)):
            self.table.load(id=key, **self.values("abc"))

    def values(self, names: str) -> dict[str, Any]:
        return {name: f"{name}{self.chance.randrange(9)}" for name in names}

    def write(self) -> None:
        table, chance = self.table, self.chance
        self.source.row_image = chance.choice(self.images)
        given = self.values("".join(name for name in "abc" if chance.random() < 0.4))
        free = sorted({*range(KEYS)} - table.rows.keys())
        action = chance.random()
        if not table.rows or (free and action < 0.25):
            table.insert(id=chance.choice(free), **given)
            return
        key = chance.choice(sorted(table.rows))
        if action < 0.45:
            table.delete(key)
            return
        if action < 0.55:
            # REPLACE as one update: what it does not name is NULL then.
            given = dict.fromkeys("abc") | given
        if free and chance.random() < self.moves:
            given["id"] = chance.choice(free)
        table.update(key, **given)

    def happen(self, most: int = 5) -> None:
        for _ in range(self.chance.randint(0, most)):
            self.write()
            if self.chance.random() < 0.15:
                self.stage()

    def stage(self) -> None:
        manifest = self.source.make_manifest()
        self.files.write(f"manifests/{manifest.sequence:016d}.json", manifest.encode())

    def load(self) -> str | None:
        """Read the table in chunks while it is written, merge it; return why it is not merged."""
        snapshot = SnapshotInMemory(self.table)
        # Of what is logged after `low`, the first chunk may see some.
        count = self.chance.randint(1, 4)
        chunk_of = [self.chance.randrange(count) for _ in range(KEYS)]
        for number in range(count):
            self.happen()
            read_now = {key for key, chunk in enumerate(chunk_of) if chunk == number}
            snapshot.read(partial(is_among, read_now))
        snapshot.commit()
        self.happen()
        return self.merge()

    def merge(self) -> str | None:
        self.stage()
        lake = Lake(self.target, MemoryRows(self.source, self.target))
        report = merge_into(
            lambda: lake, self.files, MergeOptions("", "shop", "delta", "lake", threads=1)
        )
        # Of a table without changes it says nothing.
        assert [table.error for table in report.tables if table.error] == []
        return next((table.reason for table in report.tables if table.reason), None)

    def check(self) -> None:
        rows = self.target.tables["shop.t"].read()
        assert sorted(map(repr, rows)) == sorted(repr(row) for row in self.table.values)


def is_among(keys: set[int], row: dict[str, Any]) -> bool:
    return row["id"] in keys


@pytest.mark.parametrize("image", [RowImage.MINIMAL, RowImage.NOBLOB])
@pytest.mark.parametrize("moves", [0, 0.1])
def test_a_table_that_is_loaded_is_equal_or_refused(image: RowImage, moves: float) -> None:
    came = Counter[str]()
    for seed in range(60):
        window = Window(seed, [image, image, RowImage.FULL], moves)
        window.happen()
        if seed % 2:
            window.stage()
        for _ in range(3):
            reason = window.load()
            if reason is None:
                window.check()
            else:
                assert "moved" in reason, (seed, reason)
            came["equal" if reason is None else "refused"] += 1
        # Changes alone, without a snapshot.
        window.happen()
        if reason is None and window.merge() is None:
            window.check()
        # Its way out, once keys do not change.
        window.stage()
        window.moves = 0
        assert window.load() is None, seed
        window.check()
    assert came["equal"] > 60
    assert (came["refused"] > 12) == bool(moves)


@pytest.mark.parametrize("added", [False, True])
def test_whole_images_are_never_refused(*, added: bool) -> None:
    """Also those of a range in which the table got a column, which earlier ones do not have."""
    for seed in range(30):
        window = Window(seed, [RowImage.FULL], 0.3)
        window.happen()
        if added:
            window.table.alter("ADD d", window.table.types | {"d": NOTE}, d=None)
            window.happen()
        assert window.load() is None, seed
        window.check()
