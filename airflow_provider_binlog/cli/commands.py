"""The commands and their arguments, and how one is run, with and without Airflow's command line.

Nothing heavy is imported here: `airflow` reads this at every start.
"""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, NamedTuple, NoReturn

from airflow_provider_binlog.errors import BinlogError

PROGRAM = "airflow_provider_binlog"
PACKAGE = f"{PROGRAM}.cli"

_PASSWORD = re.compile(r"(?:[A-Za-z]+:?/*)?[^:@]*:(.*)@", re.DOTALL)
"""Matches a password between the user and the host, however the address's start is mistyped."""

_FAILURE = 1
_INTERRUPTED = 130


class Argument(NamedTuple):
    """One argument: the names and the options that `argparse` takes."""

    names: tuple[str, ...]
    options: dict[str, Any]


class Command(NamedTuple):
    """One command. `run` names a function of the parsed arguments, as `module:function`."""

    name: str
    help: str
    run: str
    arguments: tuple[Argument, ...]


class Group(NamedTuple):
    """Commands under one word."""

    name: str
    help: str
    commands: tuple[Command, ...]


def _argument(*names: str, **options: Any) -> Argument:
    return Argument(names, options)


_SOURCES = _argument(
    "source",
    nargs="+",
    metavar="SOURCE",
    help="an Airflow connection id, an address such as mysql://user:password@host:3306, "
    "@FILE or env:VARIABLE that holds one, "
    "or binlog files in their order: paths, folders, globs, URLs such as s3://bucket/binlogs/",
)
_FROM = _argument(
    "--from", dest="start", metavar="FILE:OFFSET", help="begin at this event; default: the oldest"
)
_TO = _argument(
    "--to", dest="stop", metavar="FILE:OFFSET", help="end before this event; default: the end"
)
_TABLE = _argument(
    "--table",
    action="append",
    metavar="DATABASE.TABLE",
    help="only tables of this name; * and ? stand for anything; may be repeated",
)
_VERIFY = _argument(
    "--verify",
    action="store_true",
    help="print no rows, but what was read, and all that capture would refuse",
)
_SERVER = _argument(
    "source",
    metavar="CONN",
    help="an Airflow connection id, an address, or @FILE or env:VARIABLE that holds one",
)
_STAGING_PATH = _argument("staging_path", metavar="STAGING_PATH", help="as the DAG's tasks have it")
_ONE_TABLE = _argument(
    "--table", required=True, metavar="DATABASE.TABLE", help="the table at the source"
)
_NAME = _argument("name", metavar="NAME", help="the source's name, as the DAG's tasks have it")
_CONN = _argument("--conn", required=True, metavar="CONN", help="the server")
_SOURCE_NAME = _argument(
    "--source", dest="name", metavar="NAME", help="whose checkpoint to look at, too"
)
_EXCLUDE = _argument("--exclude", nargs="+", metavar="GLOB", help="tables among them to leave out")
_OUTPUT = _argument(
    *("-o", "--output"),
    default="table",
    choices=["table", "json", "yaml", "plain"],
    help="how the result is printed; default: table",
)
_LOCK = _argument(
    "--lock",
    default="none",
    choices=["none", "brief"],
    help="as the snapshot operator has it; default: none",
)
_SEQUENCE = _argument(
    "number", nargs="?", type=int, metavar="N", help="number of one manifest; default: all"
)
_CHECKPOINT = (
    _argument(
        "--from-manifests",
        metavar="STAGING_PATH",
        help="after the newest manifest that is staged there",
    ),
    _argument("--conn", metavar="CONN", help="the server that the position belongs to"),
    _argument("--position", metavar="POSITION", help="now, earliest, FILE:OFFSET or a GTID set"),
    _argument(
        "--sequence",
        type=int,
        default=0,
        metavar="N",
        help="the newest manifest that the position covers; 0: none yet",
    ),
)
_START = _argument(
    "--start",
    metavar="START",
    help="where a first run begins: now, earliest, FILE:OFFSET or a GTID set",
)


def _tables(*, required: bool) -> Argument:
    return _argument(
        "--tables",
        nargs="+",
        required=required,
        metavar="GLOB",
        help="globs of database.table, such as shop.*",
    )


def _stream(default: str, *, otherwise: str = "") -> Argument:
    return _argument(
        *("-o", "--output"),
        choices=["table", "json", "yaml", "plain"],
        help=f"how they are printed; default: {default}, a line each, as they are read{otherwise}",
    )


COMMANDS: tuple[Command | Group, ...] = (
    Command(
        "sync",
        "Bring a server's tables into a folder of this machine, and keep them up to date there",
        f"{PACKAGE}.sync:sync",
        (
            _SERVER,
            _argument(
                "--to",
                required=True,
                metavar="FOLDER",
                help="where the tables are; made if missing",
            ),
            _argument(
                "--format",
                default="delta",
                choices=["delta", "iceberg"],
                help="of the tables; default: delta",
            ),
            _tables(required=False),
            _EXCLUDE,
            _argument(
                "--conf",
                action="append",
                metavar="NAME=VALUE",
                help="a setting of Spark, such as spark.jars; may be repeated",
            ),
            _OUTPUT,
        ),
    ),
    Command(
        "check",
        "Show whether a server and its tables are ready for capture, and what mends what is not",
        f"{PACKAGE}.servers:check",
        (_SERVER, _tables(required=False), _EXCLUDE, _SOURCE_NAME, _OUTPUT),
    ),
    Command(
        "status",
        "Show where a server's log ends, and how far a source's checkpoint is from there",
        f"{PACKAGE}.servers:status",
        (
            _SERVER,
            _SOURCE_NAME,
            _OUTPUT,
        ),
    ),
    Command(
        "tables",
        "Show the state of each table of a source, and how to reload those that are not live",
        f"{PACKAGE}.lake_tables:show",
        (_NAME, _STAGING_PATH, _OUTPUT),
    ),
    Command(
        "plan",
        "Show what the next run of a source would stage: a range of the log, and snapshots",
        f"{PACKAGE}.staging:plan",
        (_NAME, _STAGING_PATH, _CONN, _tables(required=True), _EXCLUDE, _START, _OUTPUT),
    ),
    Command(
        "events",
        "List events, one a line, as SHOW BINLOG EVENTS prints them",
        f"{PACKAGE}.events:run",
        (_SOURCES, _FROM, _TO, _stream("plain")),
    ),
    Command(
        "rows",
        "Decode row changes, one JSON object a line",
        f"{PACKAGE}.rows:run",
        (_SOURCES, _TABLE, _FROM, _TO, _VERIFY, _stream("json", otherwise="; a summary: as text")),
    ),
    Command(
        "extract",
        "Stage the log from a source's checkpoint to its end, as its next run would",
        f"{PACKAGE}.staging:extract",
        (_NAME, _STAGING_PATH, _CONN, _tables(required=True), _EXCLUDE, _START, _OUTPUT),
    ),
    Command(
        "snapshot",
        "Stage the rows of tables as they are now, for the next merge to load",
        f"{PACKAGE}.staging:snapshot",
        (_NAME, _STAGING_PATH, _CONN, _tables(required=True), _EXCLUDE, _LOCK, _OUTPUT),
    ),
    Command(
        "reload",
        "Stage a table's rows as they are now: the next merge replaces those of the lake table",
        f"{PACKAGE}.staging:reload",
        (_NAME, _STAGING_PATH, _CONN, _ONE_TABLE, _LOCK, _OUTPUT),
    ),
    Command(
        "adopt",
        "Continue a lake table whose rows were loaded by other means, from the position they have",
        f"{PACKAGE}.lake_tables:adopt",
        (
            _NAME,
            _STAGING_PATH,
            _argument(
                "--conn", required=True, metavar="CONN", help="the server that the rows came from"
            ),
            _ONE_TABLE,
            _argument(
                "--at",
                required=True,
                metavar="POSITION",
                help="whose rows the lake table has: FILE:OFFSET or a GTID set",
            ),
            _OUTPUT,
        ),
    ),
    Group(
        "manifest",
        "Show or verify what is staged",
        (
            Command(
                "show",
                "Print the manifests of a source, or the tables of one of them",
                f"{PACKAGE}.manifests:show",
                (_NAME, _STAGING_PATH, _SEQUENCE, _OUTPUT),
            ),
            Command(
                "verify",
                "Read every staged file, and compare it with its manifest",
                f"{PACKAGE}.manifests:verify",
                (_NAME, _STAGING_PATH, _SEQUENCE, _OUTPUT),
            ),
        ),
    ),
    Command(
        "cleanup",
        "Remove the staged files of a source that no lake needs any more",
        f"{PACKAGE}.staged_files:clean",
        (
            _NAME,
            _STAGING_PATH,
            _argument(
                "--grace-days",
                type=float,
                default=7,
                metavar="DAYS",
                help="how far back lake tables can be restored without a reload; default: 7",
            ),
            _argument(
                "--dry-run",
                action="store_true",
                help="remove nothing; print each file that would be removed, and why",
            ),
            _OUTPUT,
        ),
    ),
    Command(
        "forget",
        "Let cleanups continue without a lake, or a table of it, that is not merged any more",
        f"{PACKAGE}.staged_files:forget",
        (
            _NAME,
            _STAGING_PATH,
            _argument("--lake", required=True, metavar="ID", help="as a cleanup prints it"),
            _argument(
                "--table", metavar="DATABASE.TABLE", help="only this table, as the source names it"
            ),
            _OUTPUT,
        ),
    ),
    Group(
        "checkpoint",
        "Show or set a source's checkpoint",
        (
            Command("show", "Print it", f"{PACKAGE}.checkpoints:show", (_NAME, _OUTPUT)),
            Command(
                "set",
                "Set it, on purpose and at your own risk",
                f"{PACKAGE}.checkpoints:set_position",
                (_NAME, *_CHECKPOINT, _OUTPUT),
            ),
            Command(
                "rewind",
                "Set it to the stop of an earlier manifest: later ones are passed on once more",
                f"{PACKAGE}.checkpoints:rewind",
                (
                    _NAME,
                    _STAGING_PATH,
                    _argument(
                        "--to",
                        type=int,
                        required=True,
                        metavar="N",
                        help="number of the last manifest that it then covers",
                    ),
                    _OUTPUT,
                ),
            ),
            Command(
                "rebuild",
                "Set it to the stop of the newest manifest, as after it was lost",
                f"{PACKAGE}.checkpoints:rebuild_newest",
                (_NAME, _STAGING_PATH, _OUTPUT),
            ),
        ),
    ),
)


def get_binlog_cli_commands() -> list[Any]:
    """Return the group `binlog` of Airflow's command line, for the provider info's `cli`."""
    from airflow.cli.cli_config import GroupCommand

    translated = [_translate(command) for command in COMMANDS]
    return [
        GroupCommand(
            "binlog", "Capture MySQL and MariaDB, and look into their binary logs", translated
        )
    ]


def _translate(command: Command | Group) -> Any:
    from airflow.cli.cli_config import ActionCommand, Arg, GroupCommand

    if isinstance(command, Group):
        below = [_translate(inner) for inner in command.commands]
        return GroupCommand(command.name, command.help, below)

    def call(arguments: argparse.Namespace) -> None:
        arguments.command_path = command.run
        if code := execute(arguments):
            sys.exit(code)

    arguments = [Arg(given.names, **given.options) for given in command.arguments]  # type: ignore[no-untyped-call]
    return ActionCommand(command.name, command.help, call, arguments)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command without Airflow's own command line; return the exit code."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    secrets = _find_passwords(given)

    class Parser(argparse.ArgumentParser):
        def error(self, message: str) -> NoReturn:
            super().error(_without_passwords(message, secrets))

    parser = Parser(
        prog=f"python -m {PROGRAM}",
        description="Capture MySQL and MariaDB, and look into their binary logs.",
    )
    _add(parser, COMMANDS)
    return execute(parser.parse_args(given))


def _add(parser: argparse.ArgumentParser, commands: Sequence[Command | Group]) -> None:
    words = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands:
        below = words.add_parser(command.name, help=command.help, description=command.help)
        if isinstance(command, Group):
            _add(below, command.commands)
            continue
        for argument in command.arguments:
            below.add_argument(*argument.names, **argument.options)
        below.set_defaults(command_path=command.run)


def execute(arguments: argparse.Namespace) -> int:
    """Run the command that was parsed; return the exit code.

    A reader that closes the pipe (`| head`) is no error. A `BinlogError` or an error of the file
    system is printed as one line on standard error. Any other exception is a bug, and is raised.
    """
    fail = partial(_fail, secrets=_find_passwords(vars(arguments).values()))
    module, _, name = arguments.command_path.partition(":")
    code: int | None = None
    try:
        code = getattr(importlib.import_module(module), name)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more as it ends: give it a file that accepts it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except BinlogError as error:
        error.name_section()
        return fail(str(error))
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        return fail(f"{file}{error.strerror or error}")
    except KeyboardInterrupt:
        return _INTERRUPTED
    return code or 0


def _fail(text: str, *, secrets: Sequence[str]) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"error: {_without_passwords(' '.join(text.split()), secrets)}\n")
    return _FAILURE


def _find_passwords(arguments: Iterable[object]) -> list[str]:
    """Return the possible passwords of addresses among the arguments, the longest first."""
    texts = (
        text for value in arguments for text in (value if isinstance(value, list) else [value])
    )
    matches = (_PASSWORD.match(text) for text in texts if isinstance(text, str))
    passwords = {match[1] for match in matches if match is not None}
    # As a path and as the text of an error have them.
    passwords |= {re.sub("/+", "/", password) for password in passwords}
    passwords |= {" ".join(password.split()) for password in passwords}
    return sorted(filter(None, passwords), key=len, reverse=True)


def _without_passwords(text: str, secrets: Iterable[str]) -> str:
    for secret in secrets:
        text = text.replace(f"{secret}@", "***@")
    return re.sub(r":(?!//)\S*@", ":***@", text)
