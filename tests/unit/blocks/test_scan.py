"""The chain of events among offsets that look like events."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.blocks import scan


def walk(start: list[int], follows: list[int]) -> list[int]:
    """Return the chain, one step at a time."""
    found = [0]
    while follows[found[-1]] in start:
        found.append(start.index(follows[found[-1]]))
    return found


def chain(start: list[int], follows: list[int]) -> list[int]:
    chosen = scan.chain(np.array(start, dtype=np.int64), np.array(follows, dtype=np.int64))
    found: list[int] = np.arange(len(start))[chosen].tolist()
    return found


@pytest.mark.parametrize(
    ("start", "follows", "expected"),
    [
        ([0], [10], [0]),
        ([0, 10, 20], [10, 20, 30], [0, 1, 2]),
        ([0, 4, 10, 20], [10, 20, 20, 30], [0, 2, 3]),
        ([0, 10, 14, 20], [10, 20, 17, 30], [0, 1, 3]),
        ([0, 10, 40], [10, 20, 50], [0, 1]),
        ([0, 5, 7], [6, 7, 9], [0]),
    ],
)
def test_chain(start: list[int], follows: list[int], expected: list[int]) -> None:
    assert chain(start, follows) == expected


@given(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=1, max_size=80))
def test_chain_is_what_walking_gives(steps: list[tuple[int, int]]) -> None:
    start = np.cumsum([gap for gap, _ in steps]).tolist()
    follows = [begin + size for begin, (_, size) in zip(start, steps, strict=True)]

    assert chain(start, follows) == walk(start, follows)


@given(st.binary(max_size=200), st.sets(st.integers(0, 3), max_size=3), st.integers(0, 20))
def test_every_server_id_is_found(data: bytes, ids: set[int], begin: int) -> None:
    octets = bytes(octet % 4 if octet > 99 else 0 for octet in data)
    scanner = scan.Scanner()
    for server_id in ids:
        scanner.learn(server_id)

    found = scanner.find(np.frombuffer(octets, dtype=np.uint8), begin, len(octets)).tolist()

    offsets = range(begin, len(octets) - 3)
    assert found == [at for at in offsets if int.from_bytes(octets[at : at + 4], "little") in ids]


def test_ids_are_found_across_the_pieces_that_are_compared_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(scan, "_PIECE_BYTES", 16)
    scanner = scan.Scanner()
    scanner.learn(0x01010101)

    assert scanner.find(np.ones(50, dtype=np.uint8), 3, 50).tolist() == list(range(3, 47))


def test_a_log_may_hold_more_ids_than_are_looked_for() -> None:
    scanner = scan.Scanner()

    assert [scanner.learn(server_id) for server_id in range(10)] == [True] * 8 + [False] * 2
    assert not scanner.learn(3)
