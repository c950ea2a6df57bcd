"""Geometries of every type, as text that a server reads."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


def _pair(random: Random) -> str:
    """Return a place that every system of reference has."""
    x, y = (random.choice([0, -1.5, 89, random.uniform(-80, 80)]) for _ in range(2))
    return f"{x} {y}"


def _pairs(random: Random) -> str:
    # Beside each other, so that no line is one point.
    count = random.choice([2, 3, 9])
    return ", ".join(f"{number} {random.uniform(-80, 80)}" for number in range(count))


def _ring(random: Random) -> str:
    x, y, size = random.randint(-80, 40), random.randint(-80, 40), random.randint(1, 40)
    corners = ((x, y), (x + size, y), (x + size, y + size), (x, y + size), (x, y))
    return f"({', '.join(f'{a} {b}' for a, b in corners)})"


def _many(random: Random, make: Callable[[Random], str]) -> str:
    return ", ".join(make(random) for _ in range(random.choice([1, 2, 5])))


def _any(random: Random) -> str:
    return geometry(random, random.choice(sorted(_BODIES)))


_BODIES: dict[str, Callable[[Random], str]] = {
    "point": _pair,
    "linestring": _pairs,
    "polygon": _ring,
    "multipoint": lambda random: _many(random, _pair),
    "multilinestring": lambda random: _many(random, lambda r: f"({_pairs(r)})"),
    "multipolygon": lambda random: _many(random, lambda r: f"({_ring(r)})"),
    "geometrycollection": lambda random: _many(random, _any),
}
TYPES = ("geometry", *_BODIES)


def geometry(random: Random, name: str) -> str:
    """Return a geometry of this type; of `geometry`, one of any type."""
    if name == "geometry":
        return _any(random)
    return f"{name.upper()}({_BODIES[name](random)})"
