"""Which files of a folder are its binlogs, and in which order."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.transport.files.names import arrange, is_pattern, plain_name


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/data/binlog.000042", "binlog.000042"),
        ("s3://bucket/logs/binlog.000042.gz", "binlog.000042"),
        ("binlog.000042.zst", "binlog.000042"),
        ("binlog.000042.zstd", "binlog.000042"),
        ("copied.bin", "copied.bin"),
        (".gz", ".gz"),
    ],
)
def test_the_name_is_the_one_that_the_server_gave(path: str, name: str) -> None:
    assert plain_name(path) == name


def test_files_are_ordered_by_number() -> None:
    names = ["binlog.1000000", "binlog.000002.gz", "binlog.999999.zst", "binlog.000001"]

    assert arrange(names, folder="/logs") == (
        ["binlog.000001", "binlog.000002.gz", "binlog.999999.zst", "binlog.1000000"],
        [],
    )


def test_other_files_are_skipped_and_named() -> None:
    # Files of the data folder of a server, and leftovers of copying.
    others = [
        "aria_log.00000001",
        "aria_log_control",
        "binlog.000003.tmp",
        "binlog.index",
        "binlog.state",
        "binlog.~rec~",
        "ibdata1",
        "md5sums",
        "undo_001",
    ]

    assert arrange(["binlog.000002", *others], folder="/logs") == (["binlog.000002"], others)


def test_of_two_copies_the_plain_one_is_read() -> None:
    copies = ["binlog.000007.gz", "binlog.000007.zst", "binlog.000007", "binlog.000008.gz"]

    assert arrange([*copies, "binlog.000008.zst"], folder="/logs") == (
        ["binlog.000007", "binlog.000008.zst"],
        ["binlog.000007.zst", "binlog.000007.gz", "binlog.000008.gz"],
    )


def test_two_logs_are_refused_and_named() -> None:
    names = ["binlog.000001", "relay-bin.000001", "binlog.index"]

    with pytest.raises(ConfigurationError, match=r"/data/binlog\.\*.*logs=binlog, relay-bin"):
        arrange(names, folder="/data")

    assert arrange(names, folder="/data", pattern="relay-bin.*")[0] == ["relay-bin.000001"]


@pytest.mark.parametrize("names", [[], ["binlog.index"], ["notes.txt"]])
def test_a_folder_without_binlogs_is_refused(names: list[str]) -> None:
    with pytest.raises(ConfigurationError, match="no binlog"):
        arrange(names, folder="/data")


@pytest.mark.parametrize("suffix", [".bz2", ".xz", ".lz4", ".gpg"])
def test_a_copy_that_cannot_be_opened_is_no_other_file(suffix: str) -> None:
    with pytest.raises(ConfigurationError, match="is not read"):
        arrange(["binlog.000001", f"binlog.000002{suffix}"], folder="/data")


def test_one_number_under_two_names_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="one number"):
        arrange(["binlog.000001", "binlog.01"], folder="/data")


def test_globs_are_distinguished_from_names() -> None:
    assert is_pattern("binlog.*")
    assert is_pattern("binlog.00000[12]")
    assert not is_pattern("binlog.000001")
