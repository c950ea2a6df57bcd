"""What SOURCE means: files by path, folder, glob and URL, compressed or not."""

from __future__ import annotations

import gzip
from typing import TYPE_CHECKING

import fsspec
import pytest

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.cli.commands import main
from tests.support import builder
from tests.support.builder import BinlogFile

if TYPE_CHECKING:
    from pathlib import Path

NAMES = ["binlog.000009", "binlog.000010", "binlog.000011"]


def a_file(number: int) -> bytes:
    file = BinlogFile()
    file.add_transaction(number, [])
    file.add(EventType.ROTATE, builder.rotate(f"binlog.{number + 1:06}"))
    return bytes(file)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three files of a log, one of them compressed, and its index."""
    for number, name in enumerate(NAMES, 9):
        data = a_file(number)
        if number == 10:
            (tmp_path / f"{name}.gz").write_bytes(gzip.compress(data))
        else:
            (tmp_path / name).write_bytes(data)
    (tmp_path / "binlog.index").touch()
    return tmp_path


def events(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[list[str], str]:
    assert main(["events", *map(str, arguments)]) == 0
    printed = capsys.readouterr()
    return printed.out.splitlines(), printed.err


def test_a_folder_is_its_files_in_order(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    paths = [folder / NAMES[0], folder / f"{NAMES[1]}.gz", folder / NAMES[2]]
    expected, errors = events(capsys, *paths)
    assert errors == ""
    files = [line.partition("\t")[0] for line in expected]
    assert list(dict.fromkeys(files)) == NAMES

    for source in (folder, f"file://{folder}", f"{folder}/"):
        found, errors = events(capsys, source)
        assert found == expected
        assert errors == "note: skipped: binlog.index\n"
    for source in (f"{folder}/binlog.0*", f"file://{folder}/binlog.0*"):
        assert events(capsys, source) == (expected, "")


def test_a_range_is_given_by_names_without_suffix(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    span = ["--from", f"{NAMES[1]}:4", "--to", f"{NAMES[2]}:4"]

    found, _ = events(capsys, folder, *span)

    assert {line.partition("\t")[0] for line in found} == {NAMES[1]}


@pytest.mark.parametrize("names", [["old.000120", "new.000001"], ["b.bin", "a.bin"]])
def test_files_stop_in_the_order_in_which_they_are_given(
    names: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """They may be of several logs, after a RESET or a failover, and have any names."""
    for name in names:
        (tmp_path / name).write_bytes(a_file(1))
    paths, end = [tmp_path / name for name in names], 10**6
    whole = len(events(capsys, paths[0])[0])

    def count(stop: str, *more: str) -> int:
        return len(events(capsys, *paths, "--to", stop, *more)[0])

    assert count(f"{names[1]}:{end}") == 2 * whole
    assert count(f"{names[0]}:{end}") == whole
    assert count(f"{names[1]}:4") == whole
    assert count(f"{names[0]}:4") == 0
    assert count(f"{names[0]}:{end}", "--from", f"{names[1]}:4") == 0


def test_a_url_is_whatever_fsspec_reaches(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected, _ = events(capsys, folder)
    for path in folder.iterdir():
        with fsspec.open(f"memory://{folder}/{path.name}", "wb") as file:
            file.write(path.read_bytes())

    assert events(capsys, f"memory://{folder}/")[0] == expected
    assert len(events(capsys, f"memory://{folder}/{NAMES[1]}.gz")[0]) == len(expected) // 3


@pytest.mark.parametrize(
    ("lost", "source", "says"),
    [
        (NAMES[1] + ".gz", "", "not consecutive"),
        (None, "/relay.*", "there is no binlog"),
        (None, "/nowhere/", "No such file"),
        (None, "/binlog.000012.gz", "binlog.000012.gz: No such file"),
    ],
)
def test_what_cannot_be_read_is_one_line(
    lost: str | None,
    source: str,
    says: str,
    folder: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    if lost is not None:
        (folder / lost).unlink()

    assert main(["events", f"{folder}{source}"]) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert says in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("memory:///nothing-there/binlog.000001", "nothing is stored under this key"),
        ("nothing://at/all", "cannot be reached"),
    ],
)
def test_a_url_that_cannot_be_read_is_one_line(
    url: str, says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rows", url]) == 1

    assert says in capsys.readouterr().err
