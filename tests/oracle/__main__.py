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
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from tests.oracle.run import Outcome, run
from tests.oracle.settings import Settings, every
from tests.services.processes import RUN_FOLDER
from tests.services.servers import Server

SERVERS = ("mysql97", "mysql80", "mariadb1011", "mariadb118")
REFUSED_SHARE_MAX = 0.1
"""Of the tables of all runs; those of `Settings.logs_schemas` are never refused."""

# So many tables a few refused ones are no measure for.
_TABLES_MEASURED_MIN = 100

RunOne = Callable[[Settings, int], Outcome]
"""Runs a combination with a seed."""


@dataclass
class Tally:
    """What runs came to."""

    runs: int = 0
    failed: int = 0
    changes: int = 0
    rows: int = 0
    tables: int = 0
    refused: int = 0

    def add(self, outcome: Outcome) -> None:
        """Count a run that held."""
        self.changes += outcome.changes
        self.rows += outcome.rows
        self.tables += outcome.tables
        self.refused += len(outcome.refused)

    @property
    def refuses_too_much(self) -> bool:
        """Whether more tables were left out than may be."""
        return (
            self.tables >= _TABLES_MEASURED_MIN and self.refused > REFUSED_SHARE_MAX * self.tables
        )

    def __str__(self) -> str:
        """Return all numbers."""
        return (
            f"{self.runs} runs, {self.changes:,} changes, {self.rows:,} rows compared with SELECT:"
            f" {self.failed} failed; {self.refused} of {self.tables} tables refused"
        )


def main(arguments: list[str] | None = None) -> int:
    """Run; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--only", help="run the combination of this name alone")
    parser.add_argument("--seed", type=int, help="the first run's; the next one's is one more")
    parser.add_argument("--statements", type=int, default=1000, help="for each run")
    parser.add_argument("--ranges", type=int, default=5, help="that a run is captured in")
    parser.add_argument("--changes", type=int, default=0, help="go on until there were so many")
    chosen = parser.parse_args(arguments)
    settings = [each for name in SERVERS for each in every(name)]
    if chosen.only is not None:
        settings = [each for each in settings if str(each) == chosen.only]
    if not settings:
        print(f"there is no combination {chosen.only}")
        return 2
    seed = secrets.randbelow(1 << 32) if chosen.seed is None else chosen.seed
    print(f"the first seed is {seed}", flush=True)
    folder = RUN_FOLDER / "oracle"
    shutil.rmtree(folder, ignore_errors=True)
    servers = {each: Server.create(each, folder / each) for each in {s.server for s in settings}}
    began = time.monotonic()
    try:
        for server in servers.values():
            server.start()
        run_one = partial(
            _run_one, servers, folder, statements=chosen.statements, ranges=chosen.ranges
        )
        tally = check_all(settings, seed, run_one, changes_min=chosen.changes)
    finally:
        for server in servers.values():
            server.stop()
    print(f"{tally}; {time.monotonic() - began:.0f} s")
    if tally.refuses_too_much:
        print(f"that is more than {REFUSED_SHARE_MAX:.0%} of them")
    return int(tally.failed > 0 or tally.refuses_too_much)


def check_all(
    settings: Sequence[Settings], seed: int, run_one: RunOne, *, changes_min: int = 0
) -> Tally:
    """Run each combination, and all of them again until there were enough changes or one failed.

    Each is printed. One that fails, however it does, is counted, and the next one follows.
    """
    tally = Tally()
    while not tally.runs or (tally.changes < changes_min and not tally.failed):
        for each in settings:
            tally.runs += 1
            try:
                outcome = run_one(each, seed)
            except Exception:  # noqa: BLE001 - whatever it is, the next run says more
                tally.failed += 1
                print(f"{each}, seed {seed}, failed:\n{traceback.format_exc()}", flush=True)
            else:
                tally.add(outcome)
                print(f"{each}, seed {seed}: {outcome.changes} changes", flush=True)
                for table, reason in outcome.refused.items():
                    print(f"{each}, seed {seed}, refused {table}: {reason}", flush=True)
            seed += 1
    return tally


def _run_one(
    servers: dict[str, Server],
    folder: Path,
    settings: Settings,
    seed: int,
    *,
    statements: int,
    ranges: int,
) -> Outcome:
    staged = folder / f"{settings}-{seed}"
    server = servers[settings.server]
    outcome = run(server, settings, seed, staged, statements=statements, ranges=ranges)
    shutil.rmtree(staged)
    return outcome


if __name__ == "__main__":
    sys.exit(main())
