"""Errors name what repairs the source, with its arguments."""

from __future__ import annotations

import traceback
from pathlib import Path

import pytest
from airflow.sdk.exceptions import AirflowFailException

from airflow_provider_binlog import BinlogSource
from airflow_provider_binlog.checkpoint import checkpoint_key, load
from airflow_provider_binlog.errors import (
    BinlogError,
    ChecksumError,
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    PositionPurgedError,
    UnsupportedError,
)
from airflow_provider_binlog.hooks.tasks import (
    fail_unless_retryable,
    naming_repairs,
)

SHOP = BinlogSource("shop", conn_id="replica", start="now")


class Edited:
    """A store with a checkpoint that somebody edited."""

    def get(self, key: str) -> str:
        return "{}"

    def set(self, key: str, value: str) -> None:
        raise NotImplementedError


@pytest.mark.parametrize(
    ("path", "named"),
    [
        ("s3://lake_s3@lake/my staging", "'s3://lake_s3@lake/my staging'"),
        (None, "STAGING_PATH, where STAGING_PATH is the staging_path of its extract task"),
    ],
)
def test_a_checkpoint_that_cannot_be_read(path: str | None, named: str) -> None:
    with pytest.raises(BinlogError) as raised, naming_repairs(SHOP, path):
        load(Edited(), checkpoint_key("shop"))

    command = f"airflow binlog checkpoint set shop --from-manifests {named}"
    assert raised.value.context["repair"] == command


@pytest.mark.parametrize(
    ("source", "again"),
    [
        (SHOP, 'BinlogSource("shop_2", conn_id="replica", start="earliest")'),
        (
            BinlogSource("shop", files="/backup/", start="earliest"),
            'BinlogSource("shop_2", files=\'/backup/\', start="earliest")',
        ),
    ],
)
def test_a_purged_position(source: BinlogSource, again: str) -> None:
    with pytest.raises(PositionPurgedError) as raised, naming_repairs(source):
        raise PositionPurgedError("purged")

    assert again in str(raised.value)
    assert "into the same lake with adopt=True" in str(raised.value)


def test_what_the_log_has_for_good_is_continued_after() -> None:
    with pytest.raises(UnsupportedError) as raised, naming_repairs(SHOP):
        raise UnsupportedError("logged as a statement", log_pos=900)

    again = 'capture as BinlogSource("shop_2", conn_id="replica", start="now")'
    assert again in str(raised.value.context["repair"])


@pytest.mark.parametrize(
    "context",
    [
        {"table": "shop.orders", "offset": 900},
        {"version": 1, "offset": 4},
        {"server": "5.5.62-log", "offset": 4},
        {"compression": 7, "offset": 900},
        {"needed_field": 12, "offset": 900},
        {"file": "binlog.000001"},
        {},
    ],
)
def test_a_later_start_is_named_only_where_it_helps(context: dict[str, object]) -> None:
    with pytest.raises(UnsupportedError) as raised, naming_repairs(SHOP):
        raise UnsupportedError("not read", **context)

    assert "repair" not in raised.value.context


def test_a_log_that_was_reset() -> None:
    with pytest.raises(ForeignPositionError) as raised, naming_repairs(SHOP):
        raise ForeignPositionError("reset")

    assert 'BinlogSource("shop_2", conn_id="replica", start="earliest")' in str(raised.value)


@pytest.mark.parametrize(
    ("file", "start"),
    [
        ("binlog.000009", "binlog.000010:4"),
        ("b.999999", "b.1000000:4"),
        ("copy", "FILE:4"),
        ("b." + "9" * 5000, "FILE:4"),
    ],
)
def test_a_damaged_file(file: str, start: str) -> None:
    with pytest.raises(ChecksumError) as raised, naming_repairs(SHOP):
        raise ChecksumError("damaged", file=file, offset=4)

    assert f"restore {file} from a copy" in str(raised.value)
    assert f'BinlogSource("shop_2", conn_id="replica", start="{start}")' in str(raised.value)


def test_what_is_no_damage_of_a_file_has_no_such_repair() -> None:
    with pytest.raises(FormatError) as raised, naming_repairs(SHOP):
        raise FormatError("the server's answer breaks the protocol", server="db:3306")

    assert "repair" not in raised.value.context


def test_a_retryable_error_is_raised_unchanged() -> None:
    with pytest.raises(ConnectionLostError), fail_unless_retryable():
        raise ConnectionLostError("lost")


def test_another_error_fails_the_task_without_a_retry() -> None:
    with (
        pytest.raises(
            AirflowFailException, match=r"PositionPurgedError: purged \(see=docs/.*, file=b.1\)"
        ) as caught,
        fail_unless_retryable(),
    ):
        raise PositionPurgedError("purged", file="b.1")

    assert caught.value.__suppress_context__


def test_where_damage_was_found_is_shown() -> None:
    def read() -> None:
        raise FormatError("damaged")

    with pytest.raises(AirflowFailException) as caught, fail_unless_retryable():
        read()

    assert caught.traceback[-1].name == "read"


@pytest.mark.parametrize("kind", [ConnectionLostError, PositionPurgedError, FormatError])
def test_a_log_has_one_traceback_with_the_message_first(kind: type[BinlogError]) -> None:
    def fail() -> None:
        try:
            Path("/no/such/file").read_bytes()
        except OSError as error:
            raise kind("it failed") from error

    with pytest.raises((BinlogError, AirflowFailException)) as caught, fail_unless_retryable():
        fail()

    text = "".join(traceback.format_exception(caught.value))
    assert text.count("Traceback") == 1
    section = f"docs/troubleshooting.md#{kind.__name__.lower()}"
    assert text.splitlines()[-1].endswith(f"it failed (see={section})")


def test_other_errors_pass() -> None:
    with pytest.raises(KeyError), fail_unless_retryable():
        raise KeyError
