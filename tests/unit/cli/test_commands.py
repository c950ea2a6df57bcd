"""The same commands both ways, and one line for every error."""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from airflow.cli.cli_config import ActionCommand, GroupCommand

from airflow_provider_binlog.binlog.header import EventType
from airflow_provider_binlog.cli.commands import COMMANDS, Group, get_binlog_cli_commands, main
from tests.support import builder

NUMBER = (42).to_bytes(4, "little")


def table_map(*, table_id: int = 9) -> bytes:
    """TABLE_MAP of shop.t (id int not null), with the column's name."""
    return (
        table_id.to_bytes(6, "little")
        + b"\1\0"
        + (b"\4shop\0" + b"\1t\0")
        + (b"\1\3" + b"\0" + b"\0")
        + (b"\1\1\0" + b"\4\3\2id")
    )


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """A log of one transaction that inserts the row 42, under a name without a number."""
    file = builder.BinlogFile()
    insert = builder.rows(EventType.WRITE_ROWS, 9, 1, builder.row_image([NUMBER]))
    file.add_transaction(1, [(EventType.TABLE_MAP, table_map()), (EventType.WRITE_ROWS, insert)])
    file.add(EventType.ROTATE, builder.rotate("next.000002"))
    path = tmp_path / "found.log"
    path.write_bytes(bytes(file))
    return path


def test_rows_of_a_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["rows", str(log)]) == 0

    (line,) = map(json.loads, capsys.readouterr().out.splitlines())
    offset = line.pop("pos")
    assert line == {
        "table": "shop.t",
        "change": "insert",
        "file": "found.log",
        "row": offset + 19 + 8 + 2 + 2,
        "gtid": f"{builder.SERVER_UUID}:1",
        "commit_ts": "2023-11-14 22:13:20.000000",
        "values": {"id": 42},
    }
    assert log.read_bytes()[offset + 4] == EventType.WRITE_ROWS


def test_events_of_a_file(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["events", str(log)]) == 0

    lines = [line.split("\t") for line in capsys.readouterr().out.splitlines()]
    assert [line[2] for line in lines] == [
        "Format_desc",
        "Gtid",
        "Query",
        "Table_map",
        "Write_rows",
        "Xid",
        "Rotate",
    ]
    assert all(line[0] == "found.log" for line in lines)
    assert [line[1] for line in lines[1:]] == [line[4] for line in lines[:-1]]


def test_a_range_of_events(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["events", str(log)])
    lines = capsys.readouterr().out.splitlines()
    start, stop = (f"found.log:{lines[index].split(chr(9))[1]}" for index in (1, 4))

    assert main(["events", str(log), "--from", start, "--to", stop]) == 0

    assert capsys.readouterr().out.splitlines() == lines[1:4]


@pytest.mark.parametrize(("pattern", "count"), [("shop.*", 1), ("shop.t", 1), ("shop.u", 0)])
def test_rows_of_some_tables(
    pattern: str, count: int, log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["rows", str(log), "--table", "crm.*", "--table", pattern]) == 0

    assert len(capsys.readouterr().out.splitlines()) == count


def test_what_comes_before_a_damaged_event_is_printed(
    log: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = builder.BinlogFile()
    insert = builder.rows(EventType.WRITE_ROWS, 9, 1, builder.row_image([NUMBER]))
    events = [(int(EventType.TABLE_MAP), table_map()), (int(EventType.WRITE_ROWS), insert)]
    file.add_transaction(1, events)
    at = file.add(EventType.TRANSACTION_PAYLOAD, b"\0")
    log.write_bytes(bytes(file))

    assert main(["rows", str(log)]) == 1

    printed = capsys.readouterr()
    assert printed.out.count("\n") == 1
    assert f"file=found.log, offset={at}" in printed.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["events", "/nowhere/binlog.000001"], "/nowhere/binlog.000001: No such file"),
        (["events", "binlog.000001"], "binlog.000001: No such file"),
        (["events", "/"], "there is no binlog"),
        (["events", sys.executable], "not a binlog file"),
        (["rows", "mysql://root@127.0.0.1:1"], "127.0.0.1:1"),
        (["status", "http://db"], "not with http://"),
        (["events", "mysql://db/?colour=red"], "colour"),
        (["events", sys.executable, "--from", "4"], "not a position"),
        (["events", sys.executable, "--to", "b.000001:4"], "b.000001 is none of the files"),
        (["checkpoint", "set", "shop"], "--from-manifests"),
    ],
)
def test_bad_input_is_one_line(
    arguments: list[str], says: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1

    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith("error: ")
    assert says in printed.err
    assert printed.err.count("\n") == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["status", "mysq://u:geheim@h"],
        ["status", "mysql//u:geheim@h"],
        ["status", "mysql://u:geh/geheim@h"],
        ["status", "mysql://u:geheim@h/?no=field"],
        ["status", "mysql://u:geheim@127.0.0.1:1"],
        ["events", "mysq://u:geheim@h"],
        ["events", "mysql//u:geheim@h"],
        ["events", "mysql:/u:geheim:7@h"],
        ["events", "mysql://u:geheim@h:port"],
        ["rows", "mysql:/u:geheim und mehr@h"],
        ["rows", "mysql:/u:geheim  @//und@mehr@h"],
        [
            "status",
            "mysql//u:geheim und@h",
        ],
    ],
)
def test_no_error_shows_a_password(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 1

    printed = capsys.readouterr().err
    assert "geheim" not in printed
    assert "mehr" not in printed


def test_no_usage_error_shows_a_password(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["status", "shop", "mysql://u:geheim@h", "mysql:/u:geheim und mehr@h"])

    printed = capsys.readouterr().err
    assert "mysql://u:***@h mysql:***@h" in printed
    assert "mehr" not in printed


def test_an_address_may_stand_in_a_file_or_a_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "dsn").write_text("mysql://u:geheim@127.0.0.1:1\n")
    monkeypatch.setenv("SHOP", "mysql://u:geheim@127.0.0.1:1")

    for source in (f"@{tmp_path}/dsn", "env:SHOP"):
        for command in ("status", "events"):
            assert main([command, source]) == 1
            assert "server=127.0.0.1:1, user=u" in capsys.readouterr().err
    assert main(["status", "env:NOTHING"]) == 1
    assert "NOTHING is not set" in capsys.readouterr().err
    assert main(["status", f"@{tmp_path}/nothing"]) == 1
    assert "nothing: No such file" in capsys.readouterr().err


def test_a_cut_file_is_named(log: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log.write_bytes(log.read_bytes()[:-5])

    assert main(["events", str(log)]) == 1

    assert "file=found.log" in capsys.readouterr().err


def test_a_reader_that_closes_the_pipe_is_no_error(log: Path) -> None:
    many = str(log)
    program = f"{sys.executable} -m airflow_provider_binlog events {' '.join([many] * 800)}"
    run = subprocess.run(
        ["bash", "-c", f"{program} | head -1; echo ${{PIPESTATUS[0]}}"],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout.splitlines()[1] == "0"
    assert run.stderr == ""


ABSENT = ["airflow", "pyspark", "s3fs"]


@pytest.mark.parametrize("command", ["events", "rows"])
def test_files_are_read_where_airflow_is_not_installed(command: str, log: Path) -> None:
    hide = f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))"
    run_it = "from airflow_provider_binlog.cli.commands import main; sys.exit(main())"
    run = subprocess.run(
        [sys.executable, "-c", f"{hide}; {run_it}", command, log],
        capture_output=True,
        text=True,
        check=True,
    )

    assert run.stdout


NEED_AIRFLOW = [
    ["status", "shop_mysql"],
    ["tables", "shop", "/staging"],
    ["reload", "--conn", "c", "--table", "a.b", "shop", "/staging"],
    ["adopt", "--conn", "c", "--table", "a.b", "--at", "f.000001:4", "shop", "/staging"],
    ["events", "s3://conn@lake/binlogs/"],
]


def test_an_airflow_connection_needs_airflow() -> None:
    hide = f"import sys; sys.modules.update(dict.fromkeys({ABSENT}))"
    run_them = (
        "from airflow_provider_binlog.cli.commands import main;"
        f"print([main(command) for command in {NEED_AIRFLOW}])"
    )
    run = subprocess.run(
        [sys.executable, "-c", f"{hide}; {run_them}"], capture_output=True, text=True, check=True
    )

    assert run.stdout == "[1, 1, 1, 1, 1]\n"
    errors = run.stderr.splitlines()
    assert len(errors) == len(NEED_AIRFLOW)
    assert all("Airflow is not installed here" in error for error in errors)


def test_airflow_has_the_same_commands() -> None:
    (group,) = get_binlog_cli_commands()

    assert isinstance(group, GroupCommand)
    assert [command.name for command in group.subcommands] == [each.name for each in COMMANDS]
    for ours, theirs in zip(COMMANDS, group.subcommands, strict=True):
        if isinstance(ours, Group):
            assert isinstance(theirs, GroupCommand)
            assert [each.name for each in theirs.subcommands] == [
                each.name for each in ours.commands
            ]
        else:
            assert isinstance(theirs, ActionCommand)
            parser = argparse.ArgumentParser()
            for argument in theirs.args:
                argument.add_to_parser(parser)


def test_airflow_runs_them(log: Path) -> None:
    run = subprocess.run(
        [Path(sys.executable).parent / "airflow", "binlog", "events", log],
        capture_output=True,
        text=True,
        check=True,
        env=os.environ,
    )

    # In Python 3.14 Airflow warns of its own arguments first, on the same stream.
    printed = [line for line in run.stdout.splitlines() if "FileType is deprecated" not in line]
    assert printed[0].startswith("found.log\t4\tFormat_desc\t")
