"""The commands for Airflow's own command line: `airflow binlog …`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

from airflow.cli.cli_config import ActionCommand, Arg, CLICommand, GroupCommand

from airflow_provider_binlog.cli.commands import COMMANDS, Command, Group, execute

if TYPE_CHECKING:
    import argparse
    from collections.abc import Callable


def get_binlog_cli_commands() -> list[CLICommand]:
    """Return the group `binlog`, for the provider info's `cli`."""
    return [
        GroupCommand(
            name="binlog",
            help="Look into MySQL and MariaDB binary logs",
            subcommands=[_translate(command) for command in COMMANDS],
        )
    ]


def _translate(command: Command | Group) -> CLICommand:
    if isinstance(command, Group):
        below = [_translate(inner) for inner in command.commands]
        return GroupCommand(name=command.name, help=command.help, subcommands=below)
    arguments = [Arg(given.names, **given.options) for given in command.arguments]  # type: ignore[no-untyped-call]
    return ActionCommand(
        name=command.name, help=command.help, func=_caller(command.run), args=arguments
    )


def _caller(path: str) -> Callable[[argparse.Namespace], None]:
    def call(arguments: argparse.Namespace) -> None:
        arguments.command_path = path
        if code := execute(arguments):
            sys.exit(code)

    return call
