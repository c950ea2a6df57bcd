"""Generated writes, captured and replayed, equal SELECT: whatever the server is set to."""

from __future__ import annotations

from contextlib import closing
from itertools import combinations
from typing import TYPE_CHECKING

import pytest

from tests.fixtures.mysql import connect
from tests.oracle.__main__ import SERVERS
from tests.oracle.replay import DifferenceError
from tests.oracle.run import run
from tests.oracle.settings import Settings, covering, every
from tests.oracle.workload import DATABASE
from tests.services.servers import Server

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
    outcome = run(servers[settings.server], settings, seed, tmp_path, statements=250, ranges=4)

    assert outcome.changes > 500
    assert outcome.rows > 50
    assert len(outcome.refused) <= 2
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
            cursor.execute("DELETE FROM keyed LIMIT 1")
            assert cursor.rowcount == 1

    with pytest.raises(DifferenceError, match="keyed: SELECT has"):
        run(servers["mysql97"], settings, 1, tmp_path, statements=100, ranges=1, at_end=spoil)
