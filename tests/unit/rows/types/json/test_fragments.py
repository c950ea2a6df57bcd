"""Fragments laid end to end."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.rows.types.json.text import LATER, Fragments, spans
from airflow_provider_binlog.rows.values import Bytes

SIZES = st.sampled_from([0, 1, 7, 31, 32, 33, 63, 64, 65, 511, 512, 513, 900]) | st.integers(0, 99)


@given(st.lists(st.tuples(SIZES, st.booleans()), max_size=60), st.randoms())
def test_fragments_come_in_order_and_whole(chosen: list[tuple[int, bool]], random: object) -> None:
    pieces = [bytes([65 + number % 26]) * size for number, (size, _) in enumerate(chosen)]
    first = [piece for piece, (_, added) in zip(pieces, chosen, strict=True) if not added]
    later = [piece for piece, (_, added) in zip(pieces, chosen, strict=True) if added]
    fragments = Fragments(len(pieces), np.frombuffer(b"".join(first), dtype=np.uint8))
    number = np.arange(len(pieces))
    added = np.array([each for _, each in chosen], dtype=np.bool_)
    length = np.array([len(each) for each in first], dtype=np.int64)
    fragments.put(number[~added], spans(np.cumsum(length) - length, length))
    fragments.put(number[added], fragments.add_values(Bytes.of_values(later)))

    data, ends = fragments.join()

    assert data.tobytes() == b"".join(pieces)
    assert ends.tolist() == np.cumsum([len(each) for each in pieces], dtype=np.int64).tolist()


def test_a_span_can_begin_later() -> None:
    fragments = Fragments(2, np.frombuffer(b"abc", dtype=np.uint8))
    whole = spans(np.array([0, 0]), np.array([3, 2]))
    fragments.put(np.array([1, 0]), whole + LATER)

    assert fragments.join()[0].tobytes() == b"b" + b"bc"


def test_more_than_are_copied_at_a_time() -> None:
    fragments = Fragments(30_000, np.frombuffer(b"abcdefgh", dtype=np.uint8))
    number = np.arange(30_000)
    fragments.put(number, spans(number % 8, np.ones(30_000, dtype=np.int64)))

    assert fragments.join()[0].tobytes() == b"abcdefgh" * 3750
