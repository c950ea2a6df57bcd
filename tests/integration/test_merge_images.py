"""Row images that lack columns: after every merge the lake holds what SELECT returns, or less."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from airflow_provider_binlog.changes import BeforeImages
from airflow_provider_binlog.schema import Default
from airflow_provider_binlog.spark.target.state import Mark
from airflow_provider_binlog.table_options import TableOptions, TableRules
from tests.unit.spark.history import RowImage, Source, Table
from tests.unit.spark.made_snapshots import take_snapshot
from tests.unit.spark.staged_changes import BIGINT, INT, LONG_TEXT, TEXT, ColumnType
from tests.unit.spark.workplace import Workplace, in_either_format

if TYPE_CHECKING:
    pass


SEVEN = ColumnType("bigint", pa.int64(), default=Default("7"), initial=7)
NEW = ColumnType("varchar(9)", pa.string(), default=Default("it's new"), initial="it's new")
UNKNOWN = ColumnType("bigint", pa.int64(), default=None, initial=5)
COLUMNS = {"history": INT, "id": INT, "n": SEVEN, "state": NEW, "note": TEXT, "long": LONG_TEXT}


class Owner:
    """Random changes of the rows of one history, in a table with the key (history, id)."""

    def __init__(self, table: Table, history: int, chance: random.Random) -> None:
        self.table, self.history, self.chance = table, history, chance
        self.count = 0

    def value(self, column: str) -> object:
        self.count += 1
        if self.chance.random() < 0.2:
            return None
        return self.count if column == "n" else f"{column} {self.count}"

    def some(self) -> dict[str, object]:
        names = [name for name in ("n", "state", "note", "long") if self.chance.random() < 0.4]
        return {name: self.value(name) for name in names}

    def step(self) -> None:
        chance, table, history = self.chance, self.table, self.history
        table.source.row_image = chance.choice([*RowImage, RowImage.MINIMAL, RowImage.MINIMAL])
        ids = range(5)
        used = [id_ for id_ in ids if (history, id_) in table.rows]
        free = [id_ for id_ in ids if id_ not in used]
        action = chance.choice("iiuuukkds")
        if action in "ks":
            table.source.row_image = RowImage.FULL
        if action == "i" and free:
            table.insert(history=history, id=chance.choice(free), **self.some())
        elif action == "u" and used:
            table.update((history, chance.choice(used)), **self.some())
        elif action == "k" and used and free:
            moved = {"id": chance.choice(free)} | self.some()
            table.update((history, chance.choice(used)), **moved)
        elif action == "d" and used:
            table.delete((history, chance.choice(used)))
        elif action == "s" and len(used) > 1:
            one, other = chance.sample(used, 2)
            table.update((history, one), id=99)
            table.update((history, other), id=one)
            table.update((history, 99), id=other)


def test_random_histories(workplace: Workplace) -> None:
    before_images = BeforeImages.ALL if workplace.format == "iceberg" else BeforeImages.KEY_CHANGES
    chance = random.Random(f"20261121 {before_images}")
    source = workplace.new_source(before_images=before_images)
    table = source.create(workplace.database, "t", COLUMNS, ("history", "id"))
    table.identity.part_rows = 150
    owners = [Owner(table, history, chance) for history in range(60)]
    for manifests in (1, 2):
        for _ in range(manifests):
            for _ in range(250):
                chance.choice(owners).step()
            source.commit()

        workplace.merge()

        workplace.check(table)


def minimal(workplace: Workplace, **columns: ColumnType) -> tuple[Source, Table]:
    """Return a source under MINIMAL, with a table whose two rows are merged."""
    source = workplace.new_source()
    table = source.create(workplace.database, "t", {"id": INT, "n": BIGINT} | columns, ("id",))
    table.insert(id=1, n=1, **dict.fromkeys(columns, "old"))
    table.insert(id=2, n=2, **dict.fromkeys(columns, "old"))
    source.commit()
    workplace.merge()
    source.row_image = RowImage.MINIMAL
    return source, table


def test_a_patch_changes_only_its_columns(quick_workplace: Workplace) -> None:
    source, table = minimal(quick_workplace, note=TEXT)
    table.update(1, note=None)
    table.update(2, n=None)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


@pytest.mark.parametrize("before_images", list(BeforeImages))
def test_a_key_that_changes_in_a_partial_image_makes_the_table_stale(
    quick_workplace: Workplace, before_images: BeforeImages
) -> None:
    source, table = minimal(quick_workplace, note=TEXT)
    source.before_images = before_images
    table.update(1, note="changed")
    table.update(2, id=20, n=3)
    source.commit()

    held = quick_workplace.held()

    assert held.status == "stale"
    assert "rows got another key in images that lack their other columns" in held.reason
    assert "rows=1, key=2" in held.reason
    assert held.applied_after == Mark(1)
    take_snapshot(table)
    quick_workplace.follow(table)


def test_a_key_that_changes_in_a_whole_image_is_followed(quick_workplace: Workplace) -> None:
    source, table = minimal(quick_workplace, note=TEXT)
    table.update(1, note="changed")
    source.row_image = RowImage.FULL
    table.update(2, id=20)
    table.alter("ADD COLUMN more ...", table.types | {"more": TEXT})
    table.update(1, id=10)
    source.row_image = RowImage.MINIMAL
    table.update(20, n=5)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


@in_either_format
def test_a_patch_of_a_row_that_the_lake_lacks_needs_a_reload(workplace: Workplace) -> None:
    source, table = minimal(workplace, note=TEXT)
    session = workplace.spark.newSession()
    session.sql(f"DELETE FROM {workplace.target(table)} WHERE id = 2")
    table.update(1, note="changed")
    table.update(2, note="changed")
    source.commit()

    held = workplace.held()

    assert held.status == "stale"
    assert "rows that the lake table does not have" in held.reason
    assert "rows=1, key=2, columns=n" in held.reason
    assert held.applied_after == Mark(1)
    assert [row["note"] for row in workplace.found(table)] == ["old"]
    assert workplace.hold(table).state == "stale"
    take_snapshot(table)
    workplace.follow(table)


def test_patches_alone_make_no_table(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    columns = {"id": INT, "n": BIGINT, "note": TEXT}
    table = source.create(quick_workplace.database, "t", columns, ("id",))
    table.rows[1], table.rows[2] = (1, 1, "one"), (2, 2, "two")
    source.row_image = RowImage.MINIMAL
    table.update(1, n=3)
    source.commit()

    held = quick_workplace.held()

    assert "reload the table" in held.reason
    assert "rows=1, key=1, columns=note" in held.reason
    lake, session = quick_workplace.lake, quick_workplace.spark.newSession()
    assert lake.find_state(session, quick_workplace.target(table)) is None
    assert quick_workplace.held().reason == held.reason
    take_snapshot(table)
    quick_workplace.follow(table)


def test_an_insert_takes_the_defaults_of_its_time(quick_workplace: Workplace) -> None:
    source, table = minimal(quick_workplace)
    table.alter("ADD COLUMN d BIGINT", table.types | {"d": BIGINT})
    table.insert(id=3)
    source.commit()
    quick_workplace.merge()
    table.insert(id=33)
    table.alter("ALTER COLUMN d SET DEFAULT 7", table.types | {"d": SEVEN})
    table.insert(id=4)
    table.insert(id=5, d=None)
    table.update(1, d=1)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)
    assert [table.rows[id_][2] for id_ in (1, 2, 3, 33, 4, 5)] == [1, None, None, None, 7, None]


def test_an_insert_without_known_defaults_needs_a_reload(quick_workplace: Workplace) -> None:
    source, table = minimal(quick_workplace)
    types = table.types | {"a": TEXT, "u": UNKNOWN}
    table.alter("ADD COLUMN ...", types)
    for id_ in (3, 4, 6):
        table.insert(id=id_)
    # These two say what the lake table will hold.
    table.update(3, u=1)
    table.delete(4)
    source.commit()

    held = quick_workplace.held()

    assert "what the others took is not known: set binlog_row_image=FULL" in held.reason
    assert "rows=1, key=6, columns=u" in held.reason
    take_snapshot(table)
    quick_workplace.follow(table)


def test_columns_come_between_patches(quick_workplace: Workplace) -> None:
    source, table = minimal(quick_workplace, note=TEXT)
    table.update(1, note="changed")
    table.alter("ADD COLUMN more ...", table.types | {"more": TEXT})
    table.update(1, more="more")
    table.update(2, n=4)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


def test_truncate_and_drop_between_patches(quick_workplace: Workplace) -> None:
    _, table = minimal(quick_workplace, note=TEXT)
    table.update(1, n=7)
    table.truncate()
    table.insert(id=1)
    table.insert(id=2, n=2)
    table.update(2, note="changed")
    quick_workplace.follow(table)

    table.update(2, n=3)
    table.drop()
    table.create_again()
    table.insert(id=2, note="new")
    table.update(2, n=4)
    quick_workplace.follow(table)


def test_a_chosen_key(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    table = source.create(quick_workplace.database, "t", {"a": SEVEN, "b": TEXT, "c": SEVEN})
    rules = TableRules({".".join(table.name): TableOptions(key=("a", "b"))})
    source.row_image = RowImage.MINIMAL
    table.insert(a=1, b=None)
    table.insert(c=2)
    quick_workplace.follow(table, table_options=rules)
    table.update(1, c=None)
    source.row_image = RowImage.FULL
    table.update(2, b="key")
    source.commit()

    quick_workplace.merge(table_options=rules)

    quick_workplace.check(table)


def test_an_insert_may_leave_a_column_of_the_key_to_its_default(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    columns = {"a": SEVEN, "b": INT, "n": BIGINT, "m": BIGINT}
    table = source.create(quick_workplace.database, "t", columns, ("a", "b"))
    source.row_image = RowImage.MINIMAL
    table.insert(b=1, n=2)
    table.update((7, 1), m=5)
    table.insert(a=1, b=1)
    source.commit()

    quick_workplace.merge()

    quick_workplace.check(table)


def test_an_image_without_its_row_s_key_is_refused(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source(before_images=BeforeImages.ALL)
    table = source.create(quick_workplace.database, "t", {"id": INT, "code": SEVEN}, ("id",))
    source.row_image = RowImage.MINIMAL
    table.insert(id=1, code=8)
    table.delete(1)
    source.commit()

    failed = quick_workplace.failure(
        table_options=TableRules({".".join(table.name): TableOptions(key=("code",))})
    )

    assert "a staged row image lacks its key" in str(failed.error)


def test_a_changelog_distinguishes_absent_from_null(quick_workplace: Workplace) -> None:
    source = quick_workplace.new_source()
    log = source.create(quick_workplace.database, "log", {"a": SEVEN, "b": TEXT, "u": UNKNOWN})
    log.insert(a=None, b="one", u=1)
    source.commit()
    quick_workplace.merge()
    source.row_image = RowImage.MINIMAL
    log.insert(b=None)
    log.insert(u=3)
    log.update(1, u=None)
    log.delete(3)
    source.commit()

    quick_workplace.merge()

    rows = sorted(quick_workplace.found(log), key=lambda row: (row["_sequence"], row["_row"]))
    assert [
        (row["_change_type"], row["a"], row["b"], row["u"], row["_absent"]) for row in rows
    ] == [
        ("insert", None, "one", 1, None),
        ("insert", 7, None, None, ["u"]),
        ("insert", 7, None, 3, None),
        ("update_preimage", None, "one", 1, None),
        ("update_postimage", None, "one", None, None),
        ("delete", 7, None, 3, None),
    ]
