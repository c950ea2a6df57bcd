"""Damage: what can happen to bytes, by chance that a seed repeats."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from copy import deepcopy
from random import Random
from typing import Any

# What no field of a stored document may be, each for some field.
_VALUES: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 4, 2**63, 10**400, 0.5, 1e308, float("inf"), float("nan")),
    *("", "1", "x", "\0", "..", "\ud800", "9" * 5000, [], {}, [[]], [None], {"": None}),
)
# What lengths, counts and type codes go wrong at; 0xfb to 0xff begin longer integers, or none.
_OCTETS = (0, 1, 2, 0x13, 0x7F, 0x80, 0xFA, 0xFB, 0xFC, 0xFD, 0xFE, 0xFF)
_WIDTHS = (1, 2, 3, 4, 6, 8)
_ROUNDS = (1, 1, 1, 1, 2, 2, 3, 5, 8)
_INSERTED_MAX = 64
_BYTES_MAX = 1 << 16


def mutate(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return `data` after one or some kinds of damage; `others` are what it may be joined with."""
    damaged = bytearray(data)
    for _ in range(random.choice(_ROUNDS)):
        random.choice(_KINDS)(random, damaged, others)
    return bytes(damaged[:_BYTES_MAX])


def mutate_json(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Return a stored document with bytes or whole values of it damaged."""
    if random.random() < 0.5:
        return mutate(random, data, others)
    value = json.loads(data)
    for _ in range(random.choice(_ROUNDS)):
        _damage(random, value, json.loads(random.choice(others)))
    return json.dumps(value).encode()


def _damage(random: Random, value: Any, other: Any) -> None:
    """Replace, remove, repeat or rename one value of a document, at any depth."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            return
        key = random.choice(keys)
        inner = value[key]
        if not isinstance(inner, dict | list) or not inner or random.random() < 0.3:
            break
        value = inner
    match random.randrange(6):
        case 0:
            del value[key]
        case 1 if isinstance(value, list):
            value.insert(key, inner)
        case 1 if isinstance(value, dict):
            value[f"{key}x"] = value.pop(key)
        case 2:
            value[key] = random.choice(list(other.values()))
        case _:
            value[key] = deepcopy(random.choice(_VALUES))


def _offset(random: Random, data: bytearray) -> int:
    """Return an index; the front, where headers and lengths stand, is as likely as all the rest."""
    if not data:
        data.append(0)
    end = len(data) if random.random() < 0.5 else min(len(data), 40)
    return random.randrange(end)


def _span(random: Random, data: bytearray) -> slice:
    begin = _offset(random, data)
    return slice(begin, begin + random.choice((1, 2, 4, 8, random.randint(1, len(data)))))


def _flip(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[_offset(random, data)] ^= 1 << random.randrange(8)


def _set(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    data[_offset(random, data)] = random.choice(_OCTETS)


def _nudge(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _offset(random, data)
    data[at] = (data[at] + random.choice((-2, -1, 1, 2))) & 0xFF


def _write_integer(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Write a number where a length may stand: about as much as is left, or far too much."""
    at, width = _offset(random, data), random.choice(_WIDTHS)
    left = len(data) - at - width
    powers = (1 << random.randrange(8 * width)) - random.randint(0, 1)
    value = random.choice((0, left - 1, left, left + 1, len(data), powers, -1))
    octets = (value & (1 << 8 * width) - 1).to_bytes(width, "little")
    data[at : at + width] = octets


def _cut(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_offset(random, data) :]


def _remove(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    del data[_span(random, data)]


def _insert(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    at = _offset(random, data)
    data[at:at] = random.randbytes(random.choice((1, 2, 4, _INSERTED_MAX)))


def _repeat(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    span = _span(random, data)
    data[span.start : span.start] = data[span] * random.choice((1, 1, 2, 16))


def _zero(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    span = _span(random, data)
    data[span] = random.choice((b"\0", b"\xff")) * len(data[span])


def _splice(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Go on as another input does."""
    other = bytearray(random.choice(others))
    data[_offset(random, data) :] = other[_offset(random, other) :]


def _transplant(random: Random, data: bytearray, others: Sequence[bytes]) -> None:
    """Put a piece of another input in at of as many bytes."""
    other = bytearray(random.choice(others))
    piece = other[_span(random, other)]
    at = _offset(random, data)
    data[at : at + len(piece)] = piece


_KINDS: tuple[Callable[[Random, bytearray, Sequence[bytes]], None], ...] = (
    *(_flip, _set, _nudge, _write_integer),
    *(_cut, _remove, _insert, _repeat, _zero, _splice, _transplant),
)
