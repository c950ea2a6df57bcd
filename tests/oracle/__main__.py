"""Runs combinations of settings until a number of changes is reached, or one run to look at.

python -m tests.oracle                                  every combination once
python -m tests.oracle --changes 1000000                again and again, other seeds
python -m tests.oracle --only mysql97-FULL-MIXED --seed 7
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import time
from pathlib import Path

from airflow_provider_binlog.errors import BinlogError
from tests.oracle.replay import DifferenceError
from tests.oracle.run import run
from tests.oracle.settings import every
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server

SERVERS = ("mysql97", "mysql80", "mariadb1011", "mariadb118")


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--only", help="run the combination of this name alone")
    parser.add_argument("--seed", type=int, help="the first run's; the next one's is one more")
    parser.add_argument("--statements", type=int, default=1000, help="for each run")
    parser.add_argument("--changes", type=int, default=0, help="go on until there were so many")
    chosen = parser.parse_args(arguments)
    seed = secrets.randbelow(1 << 32) if chosen.seed is None else chosen.seed
    return check_all(
        RUN_FOLDER / "oracle",
        seed,
        only=chosen.only,
        statements=chosen.statements,
        changes_min=chosen.changes,
    )


def check_all(
    folder: Path, seed: int, *, only: str | None, statements: int, changes_min: int
) -> int:
    """Run every combination, or `only` one, until there were enough changes."""
    shutil.rmtree(folder, ignore_errors=True)
    settings = [each for name in SERVERS for each in every(name) if only in (None, str(each))]
    if not settings:
        print(f"there is no combination {only}")
        return 2
    servers = {name: Server.create(name, folder / name) for name in {s.server for s in settings}}
    began, changes, rows, runs, failed, refused = time.monotonic(), 0, 0, 0, 0, 0
    try:
        for server in servers.values():
            server.start()
        while not runs or (changes < changes_min and not failed):
            for each in settings:
                runs += 1
                staged = folder / f"{each}-{seed}"
                try:
                    outcome = run(
                        servers[each.server], each, seed, staged, statements=statements, ranges=5
                    )
                except (BinlogError, DifferenceError) as error:
                    failed += 1
                    print(f"{each} --seed {seed} --statements {statements}: {error}", flush=True)
                else:
                    changes, rows = changes + outcome.changes, rows + outcome.rows
                    refused += len(outcome.refused)
                    shutil.rmtree(staged)
                seed += 1
    finally:
        for server in servers.values():
            server.stop()
    seconds = time.monotonic() - began
    print(
        f"{runs} runs of {len(settings)} combinations, {changes:,} changes, {rows:,} rows compared"
        f" with SELECT in {seconds:.0f} s: {failed} failed; {refused} of {6 * runs} tables refused"
    )
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
