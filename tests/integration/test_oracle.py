"""Generated writes, captured and replayed, equal SELECT: whatever the server is set to."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.names import quote_identifier as quote
from tests.fixtures.mysql import connect
from tests.oracle.__main__ import SERVERS, Tally, check_all
from tests.oracle.replay import EffectReplay
from tests.oracle.run import Outcome, run
from tests.oracle.settings import Settings, covering, every
from tests.oracle.tables import Effect, Past
from tests.oracle.workload import DATABASE
from tests.services.servers import Server
from tests.support.replay import DifferenceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.server


@pytest.fixture(scope="module")
def servers(run_folder: Path) -> Iterator[dict[str, Server]]:
    """Servers of their own: their global settings are changed."""
    made = {name: Server.create(name, run_folder / f"oracle-{name}") for name in SERVERS}
    for server in made.values():
        server.start()
    yield made
    for server in made.values():
        server.stop()


@pytest.mark.parametrize("settings", covering(SERVERS), ids=str)
def test_what_is_staged_equals_select(
    settings: Settings, servers: dict[str, Server], tmp_path: Path
) -> None:
    seed = covering(SERVERS).index(settings)
    outcome = run(servers[settings.server], settings, seed, tmp_path, statements=150, ranges=3)

    assert outcome.changes > 250
    assert outcome.rows > 50
    assert len(outcome.refused) <= (0 if settings.logs_schemas else 2)
    if settings.compression:
        assert any("PAYLOAD" in name or "COMPRESSED" in name for name in outcome.events)
    if settings.partial_json and settings.image != "MINIMAL":
        assert "PARTIAL_UPDATE_ROWS" in outcome.events


def test_every_pair_of_settings_is_covered() -> None:
    def pairs(settings: Settings) -> set[tuple[object, object]]:
        return set(combinations(vars(settings).items(), 2))

    chosen = set().union(*map(pairs, covering(SERVERS)))
    for name in SERVERS:
        for each in every(name):
            assert pairs(each) <= chosen


def test_a_difference_is_seen(servers: dict[str, Server], tmp_path: Path) -> None:
    settings = Settings("mysql97", "FULL", "FULL", compression=False, partial_json=False)

    def spoil() -> None:
        connection = connect(servers["mysql97"], database=DATABASE)
        with closing(connection), connection.cursor() as cursor:
            cursor.execute("SET sql_log_bin = 0")
            cursor.execute("SHOW TABLES")
            tables = [table for (table,) in cursor.fetchall()]
            assert sum(cursor.execute(f"DELETE FROM {quote(each)} LIMIT 1") for each in tables)

    with pytest.raises(DifferenceError, match="SELECT has") as raised:
        run(servers["mysql97"], settings, 1, tmp_path, statements=100, ranges=1, at_end=spoil)

    command = "python -m tests.oracle --only mysql97-FULL-FULL --seed 1 --statements 100 --ranges 1"
    assert raised.value.__notes__ == [f"To replay it: {command}"]


def test_the_runs_after_one_that_fails_are_run(capsys: pytest.CaptureFixture[str]) -> None:
    settings, seeds = every("mysql97")[:3], []

    def run_one(settings: Settings, seed: int) -> Outcome:
        seeds.append(seed)
        if seed == 8:
            raise KeyError("not an error of the package")
        refused = {"keyless": "not for certain"}
        return Outcome(tables=6, refused=refused, changes=10, rows=5, statements={}, events={})

    tally = check_all(settings, 7, run_one, changes_min=100)

    assert tally == Tally(runs=3, failed=1, changes=20, rows=10, tables=12, refused=2)
    assert seeds == [7, 8, 9]
    printed = capsys.readouterr().out
    assert f"{settings[1]}, seed 8, failed:\nTraceback" in printed
    assert f"{settings[2]}, seed 9, refused keyless: not for certain" in printed


def test_too_many_refused_tables_are_a_failure() -> None:
    assert not Tally(tables=200, refused=20).refuses_too_much
    assert Tally(tables=200, refused=21).refuses_too_much
    assert not Tally(tables=6, refused=2).refuses_too_much


def test_a_statement_that_is_not_staged_is_a_difference() -> None:
    past = Past(effects=[Effect("TRUNCATE TABLE", ("t",), truncated=True)])

    with pytest.raises(DifferenceError, match="not staged"):
        EffectReplay(past, refused=set()).end()
    EffectReplay(past, refused={"t"}).end()
