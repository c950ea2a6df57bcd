"""Delta: the mark of a version, through compactions, restores and logs that were cleaned up."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from airflow_provider_binlog.errors import MergeError
from airflow_provider_binlog.spark.target.delta.log import (
    find_contents,
    mark_of,
    transaction_version,
    write_note,
)
from airflow_provider_binlog.spark.target.state import NOTHING, Contents, ForeignWrite, Mark

if TYPE_CHECKING:
    from collections.abc import Mapping

OPTIMIZE = {"operation": "OPTIMIZE"}


class Commits:
    """Commits in memory, by version; None where it was cleaned up."""

    def __init__(self, *commits: Mapping[str, Any] | None) -> None:
        self.commits = commits

    def read(self, version: int) -> Mapping[str, Any] | None:
        return self.commits[version]


def merged(mark: Mark, base: int, source: str = "shop") -> dict[str, Any]:
    return {"operation": "MERGE", "userMetadata": note(Contents(mark), base, source)}


def note(contents: Contents, base: int, source: str = "shop") -> str:
    change: Any = SimpleNamespace(
        owner=SimpleNamespace(source=source),
        contents=contents,
        base=base,
        stop="log.000001:4",
    )
    return write_note(change)


def restored(**to: object) -> dict[str, Any]:
    return {"operation": "RESTORE", "operationParameters": to}


def found(*commits: Mapping[str, Any] | None, is_merged: bool = True) -> Mark | str:
    stored = transaction_version(Mark(9), None) if is_merged else None
    last = len(commits) - 1
    contents = find_contents(Commits(*commits).read, last, source="shop", transaction=stored)
    return contents.mark if isinstance(contents, Contents) else contents


CREATE = {"operation": "CREATE TABLE"}
REPLACE = {"operation": "CREATE OR REPLACE TABLE AS SELECT"}
TIME = "2026-11-22 10:27:23.0"
ONE = merged(Mark(1), 0)
TWO = merged(Mark(2), 1)


@pytest.mark.parametrize(
    ("commits", "mark"),
    [
        ((CREATE, ONE), Mark(1)),
        ((CREATE, ONE, OPTIMIZE, OPTIMIZE), Mark(1)),
        ((CREATE, ONE, TWO, {"userMetadata": "mine"}), Mark(2)),
        ((CREATE, ONE, merged(Mark(1, 3), 1)), Mark(1, 3)),
        ((CREATE, ONE, TWO, restored(version=1, timestamp=None)), Mark(1)),
        ((CREATE, ONE, TWO, restored(version="1")), Mark(1)),
        ((CREATE, ONE, TWO, restored(timestamp=TIME), restored(version=1), OPTIMIZE), Mark(1)),
        ((CREATE, ONE, TWO, restored(version=1), restored(version=2)), Mark(2)),
        ((CREATE, ONE, TWO, restored(version=0)), NOTHING),
        ((CREATE, ONE, REPLACE, TWO), Mark(2)),
        ((None, None, OPTIMIZE), Mark(9)),
        ((None, TWO, OPTIMIZE), Mark(2)),
    ],
)
def test_the_last_note_counts_that_led_to_the_version(
    commits: tuple[Mapping[str, Any] | None, ...], mark: Mark
) -> None:
    assert found(*commits) == mark


@pytest.mark.parametrize(
    ("commits", "says"),
    [
        ((None, None, TWO, restored(version=1)), "cleaned up"),
        ((CREATE, ONE, TWO, restored(version=None, timestamp=TIME)), "commit 3 restored"),
        ((CREATE, ONE, restored(version=2)), "commit 2 restored"),
        ((CREATE, ONE, REPLACE, OPTIMIZE), "was replaced by commit 2"),
        ((CREATE, ONE, {"operation": "CLONE"}), "was replaced by commit 2"),
        ((CREATE, ONE, restored(version=0), merged(Mark(2), 1)), "while a merge ran"),
        ((CREATE, ONE, merged(Mark(7), 1, "other"), OPTIMIZE), "are those of source 'other'"),
    ],
)
def test_what_cannot_be_determined_is_said(
    commits: tuple[Mapping[str, Any] | None, ...], says: str
) -> None:
    assert says in str(found(*commits))


INSERT = {"operation": "WRITE", "changesRows": True, "engineInfo": "Spark/4", "timestamp": 0}
NOTED = ForeignWrite(1, "DELETE", "ann")
CARRIED = {"operation": "MERGE", "userMetadata": note(Contents(Mark(2), None, "", NOTED), 1)}


@pytest.mark.parametrize(
    ("commits", "version"),
    [
        ((CREATE, INSERT, ONE | {"userMetadata": note(Contents(Mark(1)), 1)}), None),
        ((CREATE, ONE, INSERT, INSERT, OPTIMIZE), 2),
        ((CREATE, ONE, INSERT, OPTIMIZE, TWO), 2),
        ((CREATE, ONE, INSERT, restored(version=1)), None),
        ((CREATE, ONE, CARRIED, INSERT), 1),
        ((None, None, OPTIMIZE, INSERT), 3),
    ],
    ids=["adopted", "after", "while a merge ran", "restored", "noted", "cleaned up"],
)
def test_the_first_write_of_others_is_found_that_no_merge_replaced(
    commits: tuple[Mapping[str, Any] | None, ...], version: int | None
) -> None:
    stored, last = transaction_version(Mark(9), None), len(commits) - 1

    contents = find_contents(Commits(*commits).read, last, source="shop", transaction=stored)

    assert isinstance(contents, Contents)
    write = contents.foreign_write
    assert (None if write is None else write.version) == version
    if version not in (None, 1):
        assert str(write).count("(WRITE by Spark/4 at 1970-01-01T00:00:00+00:00)") == 1


def test_a_table_without_a_transaction_contains_nothing() -> None:
    assert found(None, is_merged=False) == NOTHING


def test_transactions_grow_with_marks_and_again_after_a_restore() -> None:
    versions = [transaction_version(each, None) for each in (Mark(1), Mark(1, 5), Mark(2))]
    assert versions == sorted(versions)
    assert [mark_of(each) for each in versions] == [Mark(1), Mark(1, 5), Mark(2)]

    again = transaction_version(Mark(1, 5), versions[-1])
    after = transaction_version(Mark(2), again)

    assert versions[-1] < again < after < 2**63
    assert mark_of(after) == Mark(2)


def test_more_statements_than_a_transaction_holds_are_refused() -> None:
    with pytest.raises(MergeError, match="statements"):
        transaction_version(Mark(1, 2**21), None)


def test_a_commit_says_whose_rows_it_has_and_from_which_snapshot() -> None:
    two = note(Contents(Mark(2), "9f86d081884c7d65", "20261122"), 1)
    commits = Commits(CREATE, ONE, {"userMetadata": two}, OPTIMIZE)

    def read(version: int) -> Contents | str:
        return find_contents(commits.read, version, source="shop", transaction=1)

    assert read(3) == Contents(Mark(2), "9f86d081884c7d65", "20261122")
    assert read(1) == Contents(Mark(1), None, "")
    cleaned_up = find_contents(Commits(None).read, 0, source="shop", transaction=1)
    assert cleaned_up == Contents(mark_of(1), None, None)
