"""Run the demo, its UI, or a query over its tables."""

from __future__ import annotations

import argparse
import os
import signal
import sys
from typing import TYPE_CHECKING

import pymysql

from airflow_provider_binlog.errors import BinlogError
from dags.demo.choice import read_choice, says_anything
from dags.demo.surroundings import hold
from tests.services.progress import ServiceError

if TYPE_CHECKING:
    from collections.abc import Sequence

_INTERRUPTED = 130


def main(arguments: Sequence[str]) -> int:
    """Run one command; return its exit code."""
    chosen = _parser().parse_args(arguments)
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, _stop)
    try:
        return _COMMANDS[chosen.command](chosen)
    except (ServiceError, BinlogError, pymysql.MySQLError) as error:
        sys.stderr.write(f"\nThe demo cannot go on: {error}\n")
        return 1
    except KeyboardInterrupt:
        sys.stderr.write("Stopped, and all that was started with it.\n")
        # Of the UI it is the ordinary end.
        return 0 if chosen.command == "ui" else _INTERRUPTED


def _demo(chosen: argparse.Namespace) -> int:
    from dags.demo.demo import show_demo

    with hold():
        return show_demo(read_choice(os.environ), spoil=chosen.spoil)


def _ui(_: argparse.Namespace) -> int:
    from dags.demo.ui import show_ui

    choice = read_choice(os.environ)
    with hold():
        show_ui(choice if says_anything(os.environ) else None)
    return 0


def _sql(chosen: argparse.Namespace) -> int:
    from dags.demo.query import show_query

    show_query(chosen.query)
    return 0


_COMMANDS = {None: _demo, "ui": _ui, "sql": _sql}


def _stop(*_: object) -> None:
    """Leave at the first signal; one more while everything is being ended changes nothing."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    sys.stderr.write("\nStopping …\n")
    raise KeyboardInterrupt


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m dags.demo", description=__doc__)
    parser.add_argument(
        "--spoil",
        action="store_true",
        help="change one value without logging it: the comparison must find it, and exit 1",
    )
    commands = parser.add_subparsers(dest="command")
    commands.add_parser("ui", help="open Airflow on it, with writes trickling in")
    sql = commands.add_parser("sql", help="query the last demo's lake tables")
    sql.add_argument("query")
    return parser


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
