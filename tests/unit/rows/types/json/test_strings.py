"""Strings of JSON that must be escaped, and how."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.rows.types.json.walk import escape, find_special
from airflow_provider_binlog.rows.values import Bytes, Memory
from tests.support.json_documents import strings


def special(*texts: bytes) -> list[int]:
    values = Bytes.of_values(texts)
    memory = Memory(values.data, len(values.data))
    bounds = values.offsets.astype(np.int64)
    found: list[int] = find_special(memory, bounds[:-1], np.diff(bounds)).tolist()
    return found


@pytest.mark.parametrize("size", [1, 7, 8, 9, 16, 17, 255, 256, 257, 600])
def test_each_character_at_each_offset(size: int) -> None:
    for offset in {0, size // 2, max(0, size - 8), size - 1}:
        texts = []
        for code in range(256):
            text = bytearray(b"x" * size)
            text[offset] = code
            texts.append(bytes(text))

        assert special(*texts) == [*range(0x20), ord('"'), ord("\\")]


def test_a_neighbour_is_not_looked_at() -> None:
    assert special(b'"', b"", b"a", b"", b"\\", b"b") == [0, 4]


@given(st.lists(strings, max_size=10))
def test_escaped_as_json_does(texts: list[str]) -> None:
    escaped = escape(Bytes.of_values([each.encode() for each in texts]))

    data, bounds = escaped.data.tobytes(), escaped.offsets.tolist()
    found = [data[first:last].decode() for first, last in pairwise(bounds)]
    assert found == [json.dumps(each, ensure_ascii=False)[1:-1] for each in texts]
