"""What every `Target` does: subclass the cases and give a `lake` fixture."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import ReloadNeededError, TargetConflictError
from airflow_provider_binlog.position import Flavor, SourceIdentity
from airflow_provider_binlog.spark.plan.evolution import Evolution
from airflow_provider_binlog.spark.staged.types import Value
from airflow_provider_binlog.spark.target.modes import CURRENT, MULTISET, TableMode
from airflow_provider_binlog.spark.target.properties import Owner
from airflow_provider_binlog.spark.target.protocol import (
    Commit,
    CountedRows,
    KeyedRows,
    TableChange,
    Target,
    VersionedRows,
    WholeRows,
)
from airflow_provider_binlog.spark.target.state import (
    CHANGES_ONLY,
    Comments,
    Hold,
    Mark,
    hold_property,
)
from tests.support.memory_target import SourceRow

if TYPE_CHECKING:
    from collections.abc import Iterable
    from contextlib import AbstractContextManager

    from airflow_provider_binlog.spark.staged.types import Value
    from airflow_provider_binlog.spark.target.state import TargetState

IDENTITY = SourceIdentity(Flavor.MYSQL, "fabf987e-e54b-11f1-bec6-02fc00000001", "binlog")
TABLE, OTHER = "955fe8e34b05f763", "3edc048dfaaae390"
COLUMNS = {"id": "int", "n": "bigint", "note": "string"}
FIELDS = {1: "id", 2: "n", 3: "note"}
ONE, TWO = {"id": 1, "n": 10, "note": "one"}, {"id": 2, "n": 20, "note": None}

# Any type does: a text looks the same in every target.
MARKED_COLUMNS = COLUMNS | {"removed_at": "string"}
MARKED = {"removed_at": "at noon"}

VERSIONED_COLUMNS = COLUMNS | {"since": "timestamp", "until": "timestamp"}
HISTORY = TableMode("history", names={"start": "since", "end": "until"})
NOON, MICROSECOND = datetime(2026, 11, 25, 12, tzinfo=UTC), timedelta(microseconds=1)


def at(seconds: int) -> datetime:
    """Return a time so many seconds after noon."""
    return NOON + timedelta(seconds=seconds)


def version(
    row: dict[str, Any], since: datetime, until: datetime | None = None, **other: Any
) -> dict[str, Any]:
    """Return a version of a row; by column, in the order of `VERSIONED_COLUMNS`."""
    return row | {"since": since, "until": until} | other


_NUMBERS = count(1)


def in_order(*rows: dict[str, Any]) -> list[dict[str, Any]]:
    """Return marked rows as `TargetLake.rows` does."""
    return sorted(({name: row[name] for name in MARKED_COLUMNS} for row in rows), key=repr)


class TargetLake(ABC):
    """A target under test, with a table that nobody else uses.

    Attributes:
        target: The target.
        owner: The table's owner.
        is_atomic: Whether a commit that is killed before its rows leaves nothing.
    """

    is_atomic = False

    def __init__(self, target: Target[Any], source: str) -> None:
        self.target = target
        self.owner = Owner(source, IDENTITY, ("contract", f"t{next(_NUMBERS)}"))

    @abstractmethod
    def make(
        self,
        columns: dict[str, str],
        rows: Iterable[SourceRow],
        groups: tuple[tuple[str, ...], ...] = (),
    ) -> Any:
        """Return rows in the form that the target takes."""

    @abstractmethod
    def read(self, columns: Iterable[str]) -> list[dict[str, Any]]:
        """Return the rows of the lake table."""

    @abstractmethod
    def write_by_hand(self, row: dict[str, Any]) -> None:
        """Let somebody else add a row."""

    @abstractmethod
    def killed_before_rows(self) -> AbstractContextManager[object]:
        """Let commits fail before their rows."""

    @property
    def table(self) -> str:
        return self.target.locate(self.owner.name)

    @property
    def state(self) -> TargetState:
        state = self.target.read_state(self.table)
        assert state is not None
        return state

    def change(self, mark: int, rows: Any, **other: Any) -> TableChange[Any]:
        """Return a change of the table as it is now."""
        state = self.target.read_state(self.table)
        columns = other.get("columns", COLUMNS)
        same = {} if state is None else {name: name for name in state.columns}
        given: dict[str, Any] = {
            "table": self.table,
            "owner": self.owner,
            "before": state,
            "mark": Mark(mark),
            "stop": "binlog.000001:4",
            "columns": columns,
            "key": ("id",),
            "mode": CURRENT,
            "evolution": Evolution(columns=same, fields=FIELDS),
            "rows": rows,
            "follows": TABLE,
        }
        return TableChange(**(given | other))

    def whole(self, *rows: dict[str, Any]) -> WholeRows[Any]:
        return WholeRows(self.make(COLUMNS, map(SourceRow, rows)))

    def keyed(self, *rows: SourceRow, columns: dict[str, str] | None = None) -> KeyedRows[Any]:
        groups = tuple(sorted({tuple(sorted(row.lacks)) for row in rows if row.lacks}))
        return KeyedRows(self.make(columns or COLUMNS, rows, groups), ("id",), groups=groups)

    def marked(self, *rows: SourceRow) -> KeyedRows[Any]:
        return replace(self.keyed(*rows, columns=MARKED_COLUMNS), marks="removed_at")

    def counted(
        self, mark: int, *rows: SourceRow, columns: dict[str, str] | None = None, **other: Any
    ) -> TableChange[Any]:
        """Return a change of a table without a key."""
        made = CountedRows(self.make(columns or COLUMNS, rows))
        other |= {"columns": columns or COLUMNS, "key": (), "mode": MULTISET}
        return self.change(mark, made, **other)

    def versioned(
        self,
        mark: int,
        *rows: SourceRow,
        tracked: tuple[str, ...] = ("id", "n", "note"),
        rest: datetime | None = None,
        columns: dict[str, str] | None = None,
        **other: Any,
    ) -> TableChange[Any]:
        """Return a change of a history."""
        groups = tuple(sorted({tuple(sorted(row.lacks)) for row in rows if row.lacks}))
        end = None if rest is None else round(rest.timestamp() * 1_000_000)
        columns = columns or VERSIONED_COLUMNS
        made = self.make(columns, rows, groups)
        changes = VersionedRows(
            made,
            ("id",),
            False,
            groups,
            "since",
            "until",
            tracked,
            end,
        )
        return self.change(mark, changes, **({"columns": columns, "mode": HISTORY} | other))

    def create_history(self, *versions: dict[str, Any]) -> None:
        made = WholeRows(self.make(VERSIONED_COLUMNS, map(SourceRow, versions)))
        self.commit(self.change(1, made, columns=VERSIONED_COLUMNS, mode=HISTORY))

    def versions(self, columns: Iterable[str] = VERSIONED_COLUMNS) -> list[dict[str, Any]]:
        """Return the versions of every row in order, with their times in UTC."""
        rows = [
            {
                name: value.astimezone(UTC) if isinstance(value, datetime) else value
                for name, value in row.items()
            }
            for row in self.read(columns)
        ]
        return sorted(rows, key=lambda row: (row["id"], row["since"]))

    def create_with_marks(self, *rows: dict[str, Any]) -> None:
        """Create the table with rows that are not marked."""
        made = self.make(MARKED_COLUMNS, [SourceRow(row | {"removed_at": None}) for row in rows])
        self.commit(self.change(1, WholeRows(made), columns=MARKED_COLUMNS))

    def create(self, **other: Any) -> TargetState:
        """Create the table with two rows, and return its state."""
        self.commit(self.change(1, self.whole(ONE, TWO), **other))
        return self.state

    def commit(self, change: TableChange[Any]) -> Commit:
        done = self.target.commit(change)
        assert done is not None
        return done

    def rows(self, columns: Iterable[str] = COLUMNS) -> list[dict[str, Any]]:
        return sorted(self.read(columns), key=repr)


class TargetCases:
    """Each test is a sentence of the contract."""

    def test_a_table_that_is_not_there_has_no_state(self, lake: TargetLake) -> None:
        assert lake.target.read_state(lake.table) is None

    def test_a_table_is_created_with_its_rows_and_what_is_written_down(
        self, lake: TargetLake
    ) -> None:
        done = lake.commit(lake.change(1, lake.whole(ONE, TWO), lacks=CHANGES_ONLY))

        state = lake.state
        assert (done.inserted, done.version) == (2, state.snapshot)
        assert lake.rows() == [ONE, TWO]
        assert (state.applied, state.table, state.key) == (Mark(1), TABLE, ("id",))
        assert (state.columns, state.fields) == (COLUMNS, FIELDS)
        assert lake.owner.properties.items() <= state.properties.items()
        assert (state.hold, state.lacks_rows, state.ended) == (None, True, False)
        assert not state.is_empty

    def test_the_final_change_of_each_key_counts(self, lake: TargetLake) -> None:
        lake.create()
        three = {"id": 3, "n": None, "note": "three"}

        done = lake.commit(
            lake.change(
                2,
                lake.keyed(
                    SourceRow(TWO | {"note": "two"}), SourceRow(three), SourceRow(ONE, deleted=True)
                ),
            )
        )

        assert lake.rows() == [TWO | {"note": "two"}, three]
        assert (done.inserted, done.updated, done.deleted) == (1, 1, 1)
        assert lake.state.applied == Mark(2)

    def test_a_row_keeps_the_values_that_its_change_lacks(self, lake: TargetLake) -> None:
        lake.create()
        partial = SourceRow({"id": 1, "n": 11, "note": None}, lacks=frozenset({"note"}))

        lake.commit(lake.change(2, lake.keyed(partial)))

        assert lake.rows() == [ONE | {"n": 11}, TWO]

    def test_a_change_of_a_row_that_is_not_there_commits_nothing(self, lake: TargetLake) -> None:
        lake.create()
        partial = SourceRow({"id": 9, "n": 11, "note": None}, lacks=frozenset({"note"}))

        with pytest.raises(ReloadNeededError, match="does not have"):
            lake.commit(lake.change(2, lake.keyed(partial, SourceRow(TWO | {"n": 21}))))

        assert (lake.rows(), lake.state.applied) == ([ONE, TWO], Mark(1))

    def test_deletes_are_marked(self, lake: TargetLake) -> None:
        """A marked row keeps what its change lacks, and a row that is there again is not marked."""
        lake.create_with_marks(ONE, TWO, ONE | {"id": 3})
        before = [SourceRow(MARKED | {"id": 2, "n": 21, "note": None}, deleted=True)]
        lake.commit(lake.change(2, lake.marked(*before), columns=MARKED_COLUMNS))
        partial = SourceRow(
            MARKED | {"id": 1, "n": 11, "note": None}, deleted=True, lacks=frozenset({"note"})
        )
        there = SourceRow(MARKED | TWO | {"removed_at": None})
        new = SourceRow(MARKED | ONE | {"id": 4}, deleted=True)

        lake.commit(lake.change(3, lake.marked(partial, there, new), columns=MARKED_COLUMNS))

        assert lake.rows(MARKED_COLUMNS) == in_order(
            MARKED | ONE | {"n": 11},
            MARKED | TWO | {"removed_at": None},
            MARKED | ONE | {"id": 3, "removed_at": None},
            MARKED | ONE | {"id": 4},
        )

    def test_a_marked_row_that_is_not_there_is_left_out_if_it_is_not_whole(
        self, lake: TargetLake
    ) -> None:
        lake.create_with_marks(ONE)
        partial = SourceRow(
            MARKED | {"id": 9, "n": 1, "note": None}, deleted=True, lacks=frozenset({"note"})
        )

        lake.commit(lake.change(2, lake.marked(partial), columns=MARKED_COLUMNS))

        assert lake.rows(MARKED_COLUMNS) == [MARKED | ONE | {"removed_at": None}]
        missing = SourceRow(
            MARKED | {"id": 9, "n": 1, "note": None, "removed_at": None}, lacks=frozenset({"note"})
        )
        with pytest.raises(ReloadNeededError, match="does not have"):
            lake.commit(lake.change(3, lake.marked(missing), columns=MARKED_COLUMNS))

    def test_the_rest_is_marked(self, lake: TargetLake) -> None:
        """All rows but those among the changes were removed; earlier marks stay."""
        lake.create_with_marks(ONE, TWO, ONE | {"id": 3})
        lake.commit(
            lake.change(
                2, lake.marked(SourceRow(MARKED | TWO, deleted=True)), columns=MARKED_COLUMNS
            )
        )
        rest: dict[str, Value] = {"removed_at": "later", "n": 7}

        lake.commit(
            lake.change(
                3,
                replace(lake.marked(SourceRow(MARKED | ONE | {"removed_at": None})), rest=rest),
                columns=MARKED_COLUMNS,
            )
        )

        assert lake.rows(MARKED_COLUMNS) == in_order(
            MARKED | ONE | {"removed_at": None},
            MARKED | TWO,
            MARKED | ONE | {"id": 3, "n": 7, "removed_at": "later"},
        )

    def test_the_mode_is_written_down(self, lake: TargetLake) -> None:
        mode = TableMode("current", "soft", {"deleted_at": "removed_at"})
        rows = lake.whole(ONE)
        lake.commit(lake.change(1, rows, mode=mode))
        assert lake.state.mode == mode

        renamed = replace(mode, names={"deleted_at": "removed"})
        lake.commit(lake.change(2, lake.keyed(SourceRow(TWO)), mode=renamed))
        assert (lake.state.mode, lake.state.hold) == (renamed, None)

        with lake.killed_before_rows(), pytest.raises(RuntimeError, match="killed"):
            lake.commit(lake.change(3, lake.whole(TWO), mode=CURRENT))
        # Its rows are still those of the other mode.
        hold = lake.state.hold
        assert lake.is_atomic or (hold is not None and hold.state == "stale")
        lake.commit(lake.change(3, lake.whole(TWO), mode=CURRENT))
        assert (lake.state.mode, lake.state.hold) == (CURRENT, None)

    def test_whole_rows_replace_all(self, lake: TargetLake) -> None:
        lake.create()

        done = lake.commit(lake.change(2, lake.whole(TWO)))

        assert (done.inserted, done.version) == (1, lake.state.snapshot)
        assert (lake.rows(), lake.state.applied) == ([TWO], Mark(2))

    def test_rows_of_a_changelog_are_added(self, lake: TargetLake) -> None:
        lake.create(key=())

        lake.commit(
            lake.change(
                2,
                KeyedRows(lake.make(COLUMNS, [SourceRow(ONE | {"id": 3})]), ("id", "n")),
                key=(),
            )
        )

        assert lake.rows() == [ONE, TWO, ONE | {"id": 3}]
        assert lake.state.key == ()

    def test_copies_of_rows_are_added_and_removed(self, lake: TargetLake) -> None:
        lake.commit(lake.change(1, lake.whole(ONE, ONE, ONE, TWO), key=(), mode=MULTISET))
        nothing = {"id": None, "n": None, "note": None}

        done = lake.commit(
            lake.counted(
                2, SourceRow(ONE, copies=-2), SourceRow(TWO, copies=1), SourceRow(nothing, copies=2)
            )
        )

        assert lake.rows() == sorted([ONE, TWO, TWO, nothing, nothing], key=repr)
        assert (done.inserted, done.updated, done.deleted) == (3, 0, 2)
        assert (lake.state.applied, lake.state.key, lake.state.mode) == (Mark(2), (), MULTISET)

        with lake.killed_before_rows(), pytest.raises(RuntimeError, match="killed"):
            lake.commit(lake.counted(3, SourceRow(nothing, copies=-2)))
        lake.commit(lake.counted(3, SourceRow(nothing, copies=-2), SourceRow(ONE, copies=-1)))
        assert lake.rows() == [TWO, TWO]

    def test_copies_that_are_not_there_are_not_removed(self, lake: TargetLake) -> None:
        lake.commit(lake.change(1, lake.whole(ONE, TWO), key=(), mode=MULTISET))
        missing = SourceRow(ONE | {"note": None}, copies=-1)

        for row in (SourceRow(TWO, copies=-2), missing):
            with pytest.raises(ReloadNeededError, match="does not have"):
                lake.commit(lake.counted(2, row, SourceRow(ONE, copies=1)))
            assert (lake.rows(), lake.state.applied) == ([ONE, TWO], Mark(1))

    def test_copies_have_the_values_of_new_columns(self, lake: TargetLake) -> None:
        # The names are those of columns that a commit may need.
        columns = COLUMNS | {"found": "double", "copies": "double"}
        lake.commit(lake.change(1, lake.whole(ONE, ONE, TWO), key=(), mode=MULTISET))
        evolution = Evolution(
            added={"found": "double", "copies": "double"},
            filled={"found": -0.0},
            columns={name: name for name in COLUMNS},
            fields=FIELDS | {4: "found", 5: "copies"},
        )
        new = {"found": -0.0, "copies": None}

        lake.commit(
            lake.counted(
                2,
                SourceRow(ONE | new, copies=-1),
                SourceRow(ONE | new | {"found": 0.0}, copies=2),
                columns=columns,
                evolution=evolution,
            )
        )

        assert lake.rows(columns) == sorted(
            [ONE | new, TWO | new, *[ONE | new | {"found": 0.0}] * 2], key=repr
        )
        lake.commit(
            lake.counted(3, SourceRow(ONE | new | {"found": 0.0}, copies=-2), columns=columns)
        )
        assert lake.rows(columns) == sorted([ONE | new, TWO | new], key=repr)

    def test_columns_evolve_by_their_ids(self, lake: TargetLake) -> None:
        before = lake.create()
        columns = {"id": "bigint", "note": "bigint", "new": "int", "text": "string"}
        fields = {1: "id", 2: "note", 4: "new", 5: "text"}
        evolution = Evolution(
            dropped=("note",),
            renamed={"n": "note"},
            widened={"id": "bigint"},
            added={"new": "int", "text": "string"},
            filled={"new": 7, "text": "it's"},
            columns={"id": "id", "note": "n"},
            fields=fields,
        )
        row = {"id": 2, "note": 21, "new": None, "text": None}

        lake.commit(
            lake.change(
                2,
                lake.keyed(SourceRow(row), columns=columns),
                columns=columns,
                evolution=evolution,
            )
        )

        assert lake.rows(columns) == [{"id": 1, "note": 10, "new": 7, "text": "it's"}, row]
        state = lake.state
        assert (state.columns, state.fields, state.unfilled) == (columns, fields, frozenset())
        assert state.column_ids["note"] in (before.column_ids["n"], "note")

    def test_a_commit_that_is_killed_before_its_rows_is_repeated(self, lake: TargetLake) -> None:
        lake.create()
        columns = COLUMNS | {"new": "int"}
        same = {name: name for name in COLUMNS}
        filled: dict[str, Value] = {"new": 7}
        row = TWO | {"new": 2}

        def change(**evolution: Any) -> TableChange[Any]:
            rows = lake.keyed(SourceRow(row), columns=columns)
            change = Evolution(**evolution, fields=FIELDS | {4: "new"})
            return lake.change(2, rows, columns=columns, evolution=change)

        with lake.killed_before_rows(), pytest.raises(RuntimeError, match="killed"):
            lake.commit(change(added={"new": "int"}, filled=filled, columns=same))
        state = lake.state
        assert (state.applied, state.columns) == (Mark(1), COLUMNS if lake.is_atomic else columns)
        again = change(added={"new": "int"}, filled=filled, columns=same)
        if not lake.is_atomic:
            # A format that fills old rows as it adds the column has less to repeat.
            fills = filled if state.unfilled else {}
            again = change(filled=fills, columns=same | {"new": "new"})

        lake.commit(again)

        assert lake.rows(columns) == [ONE | {"new": 7}, row]
        assert (lake.state.applied, lake.state.unfilled) == (Mark(2), frozenset())

    def test_of_two_changes_of_one_state_one_is_committed(self, lake: TargetLake) -> None:
        lake.create()
        first = lake.change(2, lake.keyed(SourceRow(ONE | {"n": 11})))
        second = replace(first, rows=lake.keyed(SourceRow(ONE | {"n": 12})))
        lake.commit(first)

        with pytest.raises(TargetConflictError):
            lake.commit(second)

        assert (lake.rows(), lake.state.applied) == ([ONE | {"n": 11}, TWO], Mark(2))

    def test_a_table_is_created_once(self, lake: TargetLake) -> None:
        change = lake.change(1, lake.whole(ONE))
        second = lake.change(1, lake.whole(TWO))
        lake.commit(change)

        with pytest.raises(Exception, match=r"(?i)exist|created"):
            lake.commit(second)

        assert lake.rows() == [ONE]

    def test_a_load_is_loading_until_its_rows_are_there(self, lake: TargetLake) -> None:
        lake.commit(lake.change(0, lake.whole(ONE, TWO), follows=None))
        snapshot = "20261122T000000.000000Z-9f86d081884c"

        with lake.killed_before_rows(), pytest.raises(RuntimeError, match="killed"):
            lake.commit(lake.change(2, lake.whole(ONE), snapshot=snapshot))
        hold = lake.state.hold
        assert lake.is_atomic or hold is not None
        assert hold is None or hold.state == "loading"
        lake.commit(lake.change(2, lake.whole(ONE), snapshot=snapshot))

        state = lake.state
        assert (state.hold, state.loaded, state.table) == (None, snapshot, TABLE)
        assert lake.rows() == [ONE]

    def test_a_table_may_follow_another_one_and_end(self, lake: TargetLake) -> None:
        lake.create()

        lake.commit(lake.change(2, lake.whole(TWO), follows=OTHER))
        state = lake.state
        assert (state.table, state.fields, state.ended) == (OTHER, FIELDS, False)
        lake.commit(lake.change(3, lake.keyed(SourceRow(ONE)), follows=None, ends=True))

        assert (lake.state.table, lake.state.ended) == (OTHER, True)
        assert lake.rows() == [ONE, TWO]

    def test_properties_are_set_and_hold_at_their_mark(self, lake: TargetLake) -> None:
        state = lake.create()
        hold = Hold("stale", "a reason")

        lake.target.set_properties(lake.table, hold_property(hold, state.applied, state.loaded))
        assert lake.state.hold == hold
        lake.commit(lake.change(2, lake.keyed(SourceRow(ONE))))

        assert lake.state.hold is None

    def test_comments_are_set_and_others_are_kept(self, lake: TargetLake) -> None:
        lake.create()
        lake.target.set_comments(lake.table, Comments("it's", {"id": 'a "number"', "note": "n"}))
        said = Comments("", {"note": "größer"})

        assert said.without(lake.state.comments) == said
        lake.target.set_comments(lake.table, said)
        lake.commit(lake.change(2, lake.keyed(SourceRow(TWO))))

        columns = {"id": 'a "number"', "note": "größer"}
        assert lake.state.comments == Comments("", columns)
        cleared = Comments(None, {**columns, "note": ""})
        assert cleared.without(lake.state.comments) == Comments(None, {"note": ""})

    def test_a_write_of_others_is_named_until_all_rows_are_replaced(self, lake: TargetLake) -> None:
        lake.create()
        assert lake.state.contents.foreign_write is None

        lake.write_by_hand(ONE | {"id": 7})
        written = lake.state
        write = written.contents.foreign_write
        assert write is not None
        assert (write.version, written.applied) == (written.snapshot, Mark(1))
        lake.commit(lake.change(2, lake.keyed(SourceRow(TWO)), foreign_write=write))
        assert lake.state.contents.foreign_write == write
        lake.commit(lake.change(3, lake.whole(TWO)))

        assert (lake.state.contents.foreign_write, lake.rows()) == (None, [TWO])

    def test_a_write_of_others_between_a_plan_and_its_commit_is_named(
        self, lake: TargetLake
    ) -> None:
        lake.create()
        change = lake.change(2, lake.keyed(SourceRow(TWO | {"n": 21})))
        lake.write_by_hand(ONE | {"id": 7})

        lake.commit(change)

        state, write = lake.state, lake.state.contents.foreign_write
        assert write is not None
        assert (state.applied, len(lake.rows())) == (Mark(2), 3)
        assert write.version not in (change.base, state.snapshot)


class HistoryCases:
    """Sentences of the contract for targets that keep every version of a row."""

    def test_a_version_ends_where_the_next_one_starts(self, lake: TargetLake) -> None:
        old = version(TWO, at(-9), at(-8))
        lake.create_history(version(ONE, NOON), old, version(ONE | {"id": 3}, NOON))

        done = lake.commit(
            lake.versioned(
                2,
                SourceRow(version(ONE | {"n": 11}, at(1))),
                SourceRow(version(ONE | {"n": 12}, at(2))),
                SourceRow(version(ONE, at(3)), deleted=True),
                SourceRow(version(TWO, at(1))),
                SourceRow(version(ONE | {"id": 4}, at(1)), deleted=True),
                SourceRow(version(ONE | {"id": 5}, at(1))),
                SourceRow(version(ONE | {"id": 5}, at(2)), deleted=True),
                SourceRow(version(ONE | {"id": 5, "note": None}, at(3))),
            )
        )

        assert lake.versions() == [
            version(ONE, NOON, at(1)),
            version(ONE | {"n": 11}, at(1), at(2)),
            version(ONE | {"n": 12}, at(2), at(3)),
            old,
            version(TWO, at(1)),
            version(ONE | {"id": 3}, NOON),
            version(ONE | {"id": 5}, at(1), at(2)),
            version(ONE | {"id": 5, "note": None}, at(3)),
        ]
        assert (done.inserted, done.updated, done.deleted) == (5, 1, 0)
        assert (lake.state.applied, lake.state.mode) == (Mark(2), HISTORY)

    def test_times_of_a_key_increase(self, lake: TargetLake) -> None:
        """A clock that runs back, or a log of whole seconds, leaves no version without a width."""
        lake.create_history(version(ONE, NOON), version(TWO, at(1), at(9)))
        three = ONE | {"id": 3}

        lake.commit(
            lake.versioned(
                2,
                *(SourceRow(version(ONE | {"n": n}, at(s))) for n, s in ((1, 0), (2, -5), (3, 7))),
                SourceRow(version(TWO, at(8))),
                *(SourceRow(version(three | {"n": n}, at(0))) for n in (1, 2)),
            )
        )

        after = at(9) + MICROSECOND
        assert lake.versions() == [
            version(ONE, NOON, NOON + MICROSECOND),
            version(ONE | {"n": 1}, NOON + MICROSECOND, NOON + 2 * MICROSECOND),
            version(ONE | {"n": 2}, NOON + 2 * MICROSECOND, at(7)),
            version(ONE | {"n": 3}, at(7)),
            version(TWO, at(1), at(9)),
            version(TWO, after),
            version(three | {"n": 1}, NOON, NOON + MICROSECOND),
            version(three | {"n": 2}, NOON + MICROSECOND),
        ]

    def test_columns_that_are_not_tracked_change_in_place(self, lake: TargetLake) -> None:
        lake.create_history(version(ONE, NOON), version(TWO, NOON))

        lake.commit(
            lake.versioned(
                2,
                SourceRow(version(ONE | {"n": 11}, at(1))),
                SourceRow(version(ONE | {"n": 12, "note": None}, at(2))),
                SourceRow(version(ONE | {"n": 13, "note": None}, at(3))),
                SourceRow(version(ONE | {"n": 14, "note": "one"}, at(4))),
                SourceRow(version(TWO | {"n": 21}, at(4))),
                tracked=("note",),
            )
        )

        assert lake.versions() == [
            version(ONE | {"n": 11}, NOON, at(2)),
            version(ONE | {"n": 13, "note": None}, at(2), at(4)),
            version(ONE | {"n": 14}, at(4)),
            version(TWO | {"n": 21}, NOON),
        ]

    def test_current_versions_of_the_rest_end(self, lake: TargetLake) -> None:
        three, four, old = ONE | {"id": 3}, ONE | {"id": 4}, version(ONE | {"id": 5}, NOON, at(1))
        lake.create_history(
            version(ONE, NOON), version(TWO, NOON), version(three, at(9)), version(four, NOON), old
        )

        lake.commit(
            lake.versioned(
                2,
                SourceRow(version(ONE, at(2))),
                SourceRow(version(TWO, at(2)), deleted=True),
                SourceRow(version(TWO, at(3))),
                rest=at(2),
            )
        )

        assert lake.versions() == [
            version(ONE, NOON),
            version(TWO, NOON, at(2)),
            version(TWO, at(3)),
            version(three, at(9), at(9) + MICROSECOND),
            version(four, NOON, at(2)),
            old,
        ]

    def test_a_version_has_the_current_values_that_its_row_lacks(self, lake: TargetLake) -> None:
        lake.create_history(version(ONE, NOON), version(TWO, at(-9), at(-8)))
        lacks = frozenset({"note"})

        lake.commit(
            lake.versioned(
                2,
                SourceRow(version(ONE | {"n": 11, "note": None}, at(1)), lacks=lacks),
                SourceRow(version(ONE | {"n": 12, "note": None}, at(2)), lacks=lacks),
                SourceRow(version(ONE | {"n": 12, "note": "new"}, at(3))),
            )
        )

        assert lake.versions()[:-1] == [
            version(ONE, NOON, at(1)),
            version(ONE | {"n": 11}, at(1), at(2)),
            version(ONE | {"n": 12}, at(2), at(3)),
            version(ONE | {"n": 12, "note": "new"}, at(3)),
        ]
        # The last version of this row ended.
        partial = SourceRow(version(TWO | {"note": None}, at(4)), lacks=lacks)
        with pytest.raises(ReloadNeededError, match="does not have"):
            lake.commit(lake.versioned(3, partial, SourceRow(version(ONE, at(4)))))
        assert (len(lake.versions()), lake.state.applied) == (5, Mark(2))

    def test_a_new_column_is_filled_in_every_version(self, lake: TargetLake) -> None:
        lake.create_history(version(ONE, at(-9), NOON), version(ONE, at(1)), version(TWO, NOON))
        columns = COLUMNS | {"at": "int", "since": "timestamp", "until": "timestamp"}
        evolution = Evolution(
            added={"at": "int"},
            filled={"at": 7},
            columns={name: name for name in VERSIONED_COLUMNS},
            fields=FIELDS | {4: "at"},
        )

        lake.commit(
            lake.versioned(
                2,
                SourceRow(version(ONE, at(2), at=7)),
                SourceRow(version(ONE, at(3), at=8)),
                tracked=("id", "n", "note", "at"),
                columns=columns,
                evolution=evolution,
            )
        )

        assert lake.versions(columns) == [
            version(ONE, at(-9), NOON, at=7),
            version(ONE, at(1), at(3), at=7),
            version(ONE, at(3), at=8),
            version(TWO, NOON, at=7),
        ]

    def test_a_commit_of_versions_that_was_killed_is_repeated(self, lake: TargetLake) -> None:
        lake.create_history(version(ONE, NOON))

        def change() -> TableChange[Any]:
            return lake.versioned(2, SourceRow(version(ONE | {"n": 11}, at(1))), rest=at(1))

        with lake.killed_before_rows(), pytest.raises(RuntimeError, match="killed"):
            lake.commit(change())
        assert lake.versions() == [version(ONE, NOON)]
        lake.commit(change())

        assert lake.versions() == [version(ONE, NOON, at(1)), version(ONE | {"n": 11}, at(1))]
