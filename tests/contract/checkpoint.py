"""What every `CheckpointStore` does: subclass the cases and give a `checkpoints` fixture."""

from __future__ import annotations

import dataclasses

import pytest

from airflow_provider_binlog.checkpoint import (
    Checkpoint,
    CheckpointStore,
    advance,
    load,
    overwrite,
)
from airflow_provider_binlog.errors import CheckpointError, CheckpointMovedError
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity

KEY = "binlog_checkpoint_shop"
IDENTITY = SourceIdentity(Flavor.MYSQL, "fabf987e-e54b-11f1-bec6-02fc00000001", "binlog")


def checkpoint(sequence: int, saved_by: str = "run") -> Checkpoint:
    """Return a checkpoint that covers manifest `sequence`, a thousand bytes each."""
    position = Position("binlog.000001", 4 + 1000 * sequence, f"{IDENTITY.server}:1-{sequence + 1}")
    return Checkpoint(IDENTITY, position, sequence, "2026-11-21T00:00:00+00:00", saved_by)


class CheckpointStoreCases:
    """Each test is a sentence of the contract."""

    def test_nothing_saved_is_none(self, checkpoints: CheckpointStore) -> None:
        assert checkpoints.get(KEY) is None
        assert load(checkpoints, KEY) is None

    def test_returns_what_was_set(self, checkpoints: CheckpointStore) -> None:
        checkpoints.set(KEY, '{"text": "ü %41 {{ x }}"}')

        assert checkpoints.get(KEY) == '{"text": "ü %41 {{ x }}"}'

    def test_loads_what_was_saved(self, checkpoints: CheckpointStore) -> None:
        overwrite(checkpoints, KEY, checkpoint(1))

        assert load(checkpoints, KEY) == checkpoint(1)

    def test_sources_are_separate(self, checkpoints: CheckpointStore) -> None:
        overwrite(checkpoints, KEY, checkpoint(1))
        overwrite(checkpoints, KEY + "2", checkpoint(2))

        assert load(checkpoints, KEY) == checkpoint(1)

    def test_advances_from_no_checkpoint(self, checkpoints: CheckpointStore) -> None:
        advance(checkpoints, KEY, expected=None, new=checkpoint(1))
        advance(checkpoints, KEY, expected=checkpoint(1), new=checkpoint(2))

        assert load(checkpoints, KEY) == checkpoint(2)

    def test_a_repeated_advance_keeps_what_the_first_try_saved(
        self, checkpoints: CheckpointStore
    ) -> None:
        advance(checkpoints, KEY, expected=None, new=checkpoint(1, "try 1"))
        advance(checkpoints, KEY, expected=None, new=checkpoint(1, "try 2"))

        assert load(checkpoints, KEY) == checkpoint(1, "try 1")

    @pytest.mark.parametrize("expected", [None, checkpoint(1), checkpoint(3)])
    def test_refuses_if_another_run_moved_it(
        self, checkpoints: CheckpointStore, expected: Checkpoint | None
    ) -> None:
        overwrite(checkpoints, KEY, checkpoint(2))

        with pytest.raises(CheckpointMovedError, match="another run"):
            advance(checkpoints, KEY, expected=expected, new=checkpoint(4))
        assert load(checkpoints, KEY) == checkpoint(2)

    @pytest.mark.parametrize("expected", [None, checkpoint(1)])
    def test_keeps_a_later_one_of_another_run(
        self, checkpoints: CheckpointStore, expected: Checkpoint | None
    ) -> None:
        overwrite(checkpoints, KEY, checkpoint(5))

        found = advance(checkpoints, KEY, expected=expected, new=checkpoint(2))

        assert found == load(checkpoints, KEY) == checkpoint(5)

    def test_refuses_if_it_was_deleted(self, checkpoints: CheckpointStore) -> None:
        with pytest.raises(CheckpointMovedError):
            advance(checkpoints, KEY, expected=checkpoint(1), new=checkpoint(2))
        assert load(checkpoints, KEY) is None

    def test_does_not_move_backwards(self, checkpoints: CheckpointStore) -> None:
        overwrite(checkpoints, KEY, checkpoint(2))

        with pytest.raises(CheckpointError, match="backwards"):
            advance(checkpoints, KEY, expected=checkpoint(2), new=checkpoint(1))
        assert load(checkpoints, KEY) == checkpoint(2)

    @pytest.mark.parametrize(
        ("flavor", "sequence", "gtid"),
        [
            (Flavor.MYSQL, 1, checkpoint(2).position.gtid),
            (Flavor.MYSQL, 2, None),
            (Flavor.MYSQL, 2, checkpoint(0).position.gtid),
            (Flavor.MARIADB, 2, "0-1-2"),
        ],
    )
    def test_does_not_change_servers(
        self, checkpoints: CheckpointStore, flavor: Flavor, sequence: int, gtid: str | None
    ) -> None:
        overwrite(checkpoints, KEY, checkpoint(1))
        other = dataclasses.replace(
            checkpoint(sequence),
            identity=SourceIdentity(flavor, "another", "binlog"),
            position=Position("binlog.000009", 4, gtid),
        )

        with pytest.raises(CheckpointError, match="another server"):
            advance(checkpoints, KEY, expected=checkpoint(1), new=other)
        assert load(checkpoints, KEY) == checkpoint(1)

    def test_follows_a_failover(self, checkpoints: CheckpointStore) -> None:
        overwrite(checkpoints, KEY, checkpoint(5))
        other = dataclasses.replace(
            checkpoint(6),
            identity=SourceIdentity(Flavor.MYSQL, "another", "log"),
            position=Position("log.000001", 4711, checkpoint(6).position.gtid),
        )

        advance(checkpoints, KEY, expected=checkpoint(5), new=other)

        assert load(checkpoints, KEY) == other
