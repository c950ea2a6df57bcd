"""The commands and their arguments, once for both ways of calling them.

Nothing but the standard library is imported here: `airflow` reads this at every start.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

PACKAGE = "airflow_provider_binlog.cli"

SOURCE_HELP = (
    "an Airflow connection id, an address such as mysql://user:password@host:3306, "
    "or binlog files in their order: paths, folders, globs, URLs such as s3://bucket/binlogs/"
)


@dataclass(frozen=True)
class Argument:
    """One argument: the names and the options that `argparse` takes."""

    names: tuple[str, ...]
    options: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Command:
    """One command. `run` names a function of the parsed arguments, as `module:function`."""

    name: str
    help: str
    run: str
    arguments: tuple[Argument, ...]


@dataclass(frozen=True)
class Group:
    """Commands under one word."""

    name: str
    help: str
    commands: tuple[Command, ...]


_SOURCES = Argument(("source",), {"nargs": "+", "metavar": "SOURCE", "help": SOURCE_HELP})
_FROM = Argument(
    ("--from",),
    {"dest": "start", "metavar": "FILE:OFFSET", "help": "begin at this event; default: the oldest"},
)
_TO = Argument(
    ("--to",),
    {"dest": "stop", "metavar": "FILE:OFFSET", "help": "end before this event; default: the end"},
)
_NAME = Argument(
    ("name",), {"metavar": "NAME", "help": "the source's name, as the DAG's tasks have it"}
)

COMMANDS: tuple[Command | Group, ...] = (
    Command(
        "events",
        "List events, one a line, as SHOW BINLOG EVENTS prints them",
        f"{PACKAGE}.events:run",
        (_SOURCES, _FROM, _TO),
    ),
    Command(
        "rows",
        "Decode row changes, one JSON object a line",
        f"{PACKAGE}.rows:run",
        (
            _SOURCES,
            Argument(
                ("--table",),
                {
                    "action": "append",
                    "metavar": "DATABASE.TABLE",
                    "help": "only tables of this name; * and ? stand for anything; may be repeated",
                },
            ),
            _FROM,
            _TO,
            Argument(
                ("--verify",),
                {
                    "action": "store_true",
                    "help": "print no rows, but what was read, and all that capture would refuse",
                },
            ),
        ),
    ),
    Command(
        "status",
        "Show where a server's log ends and what it lacks for capture",
        f"{PACKAGE}.status:run",
        (
            Argument(
                ("source",),
                {"metavar": "CONN", "help": "an Airflow connection id, or an address"},
            ),
        ),
    ),
    Group(
        "checkpoint",
        "Show or set a source's checkpoint",
        (
            Command("show", "Print the checkpoint", f"{PACKAGE}.checkpoint:show", (_NAME,)),
            Command(
                "set",
                "Set the checkpoint, on purpose and at your own risk",
                f"{PACKAGE}.checkpoint:set_",
                (
                    _NAME,
                    Argument(
                        ("--from-manifests",),
                        {
                            "metavar": "STAGING_PATH",
                            "help": "after the newest manifest that is staged there",
                        },
                    ),
                    Argument(
                        ("--conn",),
                        {"metavar": "CONN", "help": "the server that the position belongs to"},
                    ),
                    Argument(
                        ("--position",),
                        {
                            "metavar": "POSITION",
                            "help": "now, earliest, FILE:OFFSET or a GTID set",
                        },
                    ),
                    Argument(
                        ("--sequence",),
                        {
                            "type": int,
                            "default": 0,
                            "metavar": "N",
                            "help": "the newest manifest that the position covers; 0: none yet",
                        },
                    ),
                ),
            ),
        ),
    ),
)
