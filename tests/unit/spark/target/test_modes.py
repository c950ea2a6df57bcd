"""Which mode options choose, and what a lake table says of its own."""

from __future__ import annotations

from typing import Any

import pytest

from airflow_provider_binlog.errors import ConfigurationError, MergeError
from airflow_provider_binlog.spark.target.modes import (
    CHANGELOG,
    CURRENT,
    MODE,
    MULTISET,
    TableMode,
    choose_mode,
)
from airflow_provider_binlog.spark.target.state import KEY, read_mode
from airflow_provider_binlog.table_options import TableOptions


def test_a_multiset_is_of_a_table_without_a_key() -> None:
    multiset = TableOptions(mode="multiset", deletes="hard", metadata=False)
    assert choose_mode(multiset, keyed=False) == MULTISET
    assert choose_mode(multiset, keyed=True) == CURRENT
    assert choose_mode(TableOptions(mode="current"), keyed=False) == CHANGELOG


@pytest.mark.parametrize("other", [{"deletes": "soft"}, {"deletes": "ignore"}, {"metadata": True}])
def test_a_multiset_with_what_needs_a_key_is_refused(other: dict[str, Any]) -> None:
    options = TableOptions(mode="multiset", **other)
    with pytest.raises(ConfigurationError, match="set deletes='hard' and metadata=False"):
        choose_mode(options, keyed=False)
    assert choose_mode(options, keyed=True).kind == "current"


def test_a_history_is_of_a_table_with_a_key() -> None:
    history = choose_mode(TableOptions(mode="history", prefix="x_", metadata=True), keyed=True)
    assert history.columns | {"__START_AT": "timestamp", "__END_AT": "timestamp"} == history.columns
    assert (history.is_history, history.has_key, history.keeps_removed) == (True, True, True)
    assert not history.has_rows_of(CURRENT)
    named = choose_mode(TableOptions(mode="history", history_columns=("a", "b")), keyed=True)
    assert (named.columns, str(named)) == ({"a": "timestamp", "b": "timestamp"}, "mode='history'")
    assert named.has_rows_of(history)
    assert choose_mode(TableOptions(mode="history"), keyed=False) == CHANGELOG
    with pytest.raises(ConfigurationError, match="set deletes='hard'"):
        choose_mode(TableOptions(mode="history", deletes="soft"), keyed=True)


@pytest.mark.parametrize("mode", [MULTISET, TableMode("current", "soft", {"deleted_at": "x"})])
def test_a_lake_table_says_its_mode(mode: TableMode) -> None:
    assert read_mode({MODE: mode.text, KEY: "[]"}) == mode


@pytest.mark.parametrize("text", ["{", "[]", '{"kind": "scd2", "deletes": "hard", "names": {}}'])
def test_a_mode_that_is_not_known_is_refused(text: str) -> None:
    with pytest.raises(MergeError, match=r"was edited.*binlog\.mode"):
        read_mode({MODE: text})
