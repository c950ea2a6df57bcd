"""Run a command: parse, call, and turn an error into one line."""

from __future__ import annotations

import argparse
import importlib
import os
import re
import sys
from typing import TYPE_CHECKING, Any, NoReturn

from airflow_provider_binlog.cli.commands import COMMANDS, Command, Group
from airflow_provider_binlog.errors import BinlogError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

PROGRAM = "airflow_provider_binlog"

_FAILURE = 1
_INTERRUPTED = 130


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command without Airflow's own command line; return the exit code."""
    return execute(_build_parser().parse_args(arguments))


def execute(arguments: argparse.Namespace) -> int:
    """Run the command that was parsed; return the exit code.

    A reader that closes the pipe (`| head`) is no error. A `BinlogError` or an error of the file
    system is printed as one line on standard error. Any other exception is a bug, and is raised.
    """
    try:
        _function(arguments.command_path)(arguments)
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more as it ends: give it a file that accepts it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except BinlogError as error:
        return _fail(str(error))
    except OSError as error:
        file = f"{error.filename}: " if error.filename else ""
        return _fail(f"{file}{error.strerror or error}")
    except KeyboardInterrupt:
        return _INTERRUPTED
    return 0


def _fail(text: str) -> int:
    sys.stdout.flush()
    sys.stderr.write(f"error: {_without_passwords(' '.join(text.split()))}\n")
    return _FAILURE


def _without_passwords(text: str) -> str:
    """Return a text without what stands for a password in an address, however it is mistyped."""
    return re.sub(r":(?!//)\S*@", ":***@", text)


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments, and exit."""
        super().error(_without_passwords(message))


def _function(path: str) -> Callable[[argparse.Namespace], None]:
    module, _, name = path.partition(":")
    function: Callable[[argparse.Namespace], None] = getattr(importlib.import_module(module), name)
    return function


def _build_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog=f"python -m {PROGRAM}", description="Look into MySQL and MariaDB binary logs."
    )
    _add(parser, COMMANDS)
    return parser


def _add(parser: argparse.ArgumentParser, commands: Sequence[Command | Group]) -> None:
    words: Any = parser.add_subparsers(metavar="COMMAND", required=True)
    for command in commands:
        below = words.add_parser(command.name, help=command.help, description=command.help)
        if isinstance(command, Group):
            _add(below, command.commands)
            continue
        for argument in command.arguments:
            below.add_argument(*argument.names, **argument.options)
        below.set_defaults(command_path=command.run)
