"""Writes MySQL's binary JSON: the mirror of `airflow_provider_binlog.binlog.json.document`.

A document is made of what Python's `json` knows, and of `Raw` values. Objects are dicts; their keys
are written in MySQL's order, by length and then by bytes.
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

INTEGERS = [
    (0x05, "<h", -(2**15), 2**15 - 1),
    (0x06, "<H", 0, 2**16 - 1),
    (0x07, "<i", -(2**31), 2**31 - 1),
    (0x08, "<I", 0, 2**32 - 1),
    (0x09, "<q", -(2**63), 2**63 - 1),
    (0x0A, "<Q", 0, 2**64 - 1),
]


@dataclass(frozen=True)
class Raw:
    """A value that Python's `json` does not know.

    Attributes:
        type: Its type byte.
        data: Its bytes.
        text: What SELECT prints.
    """

    type: int
    data: bytes
    text: str = ""


EXAMPLE: dict[str, Any] = {"a": 1, "bc": [True, -1.5, "x"]}
EXAMPLE_WIRE = bytes.fromhex(
    "00 0200 2c00 1200 0100 1300 0200 05 0100 02 1500 61 6263"
    " 0300 1700 04 0100 0b 0d00 0c 1500 000000000000f8bf 01 78"
)
"""`EXAMPLE` as MySQL 9.7.4 logs it."""


def variable_length(size: int) -> bytes:
    """Return a length in 7 bits a byte."""
    low, rest = size & 0x7F, size >> 7
    return bytes([low | 0x80]) + variable_length(rest) if rest else bytes([low])


def opaque(kind: int, data: bytes, text: str = "") -> Raw:
    """Return a value of another SQL type."""
    return Raw(0x0F, bytes([kind]) + variable_length(len(data)) + data, text)


def document(value: Any, *, large: bool = False, hole: int = 0) -> bytes:
    """Return a document; with every container in the large form, or with holes between values."""
    kind, data = _value(value, large, hole)
    return bytes([kind]) + data


def _value(value: Any, large: bool, hole: int) -> tuple[int, bytes]:
    if isinstance(value, list | dict):
        return _opened(value, large, hole)
    if isinstance(value, Raw):
        return value.type, value.data
    if isinstance(value, str):
        return 0x0C, variable_length(len(value.encode())) + value.encode()
    if isinstance(value, float):
        return 0x0B, struct.pack("<d", value)
    if value is None or isinstance(value, bool):
        return 0x04, bytes([{None: 0, True: 1, False: 2}[value]])
    kind, code = next((k, c) for k, c, low, high in INTEGERS if low <= value <= high)
    return kind, struct.pack(code, value)


def _opened(value: Any, large: bool, hole: int) -> tuple[int, bytes]:
    keys = in_order(value) if isinstance(value, dict) else None
    values = list(value) if keys is None else [value[key] for key in keys]
    inner = [_value(each, large, hole) for each in values]
    encoded = None if keys is None else [key.encode() for key in keys]
    if not large:
        small = _container(encoded, inner, 2, hole)
        if len(small) <= 0xFFFF:
            return (0x02 if keys is None else 0x00), small
    return (0x03 if keys is None else 0x01), _container(encoded, inner, 4, hole)


def _container(
    keys: list[bytes] | None, values: list[tuple[int, bytes]], width: int, hole: int
) -> bytes:
    """Write keys and values from the back: their order is no part of the format."""
    inlined = (0x04, 0x05, 0x06, 0x07, 0x08) if width == 4 else (0x04, 0x05, 0x06)
    heap_at = 2 * width + (1 + width) * len(values) + (width + 2) * len(keys or ())
    entries, heap = bytearray(), bytearray()
    for key in keys or ():
        entries += (heap_at + len(heap)).to_bytes(4, "little")[:width]
        entries += len(key).to_bytes(2, "little")
        heap += key
    slots = []
    for kind, data in reversed(values):
        if kind in inlined:
            slots.append(bytes([kind]) + data.ljust(width, b"\0"))
            continue
        heap += b"\xee" * hole
        slots.append(bytes([kind]) + (heap_at + len(heap)).to_bytes(4, "little")[:width])
        heap += data
    heap += b"\xee" * hole
    head = len(values).to_bytes(4, "little")[:width]
    head += (heap_at + len(heap)).to_bytes(8, "little")[:width]
    return head + entries + b"".join(reversed(slots)) + heap


def in_order(value: dict[str, Any]) -> list[str]:
    """Return an object's keys as MySQL orders them."""
    return sorted(value, key=lambda key: (len(key.encode()), key.encode()))


def text(value: Any) -> str:
    """Return what SELECT prints; of doubles only those that Python prints alike."""
    if isinstance(value, Raw):
        return value.text
    if isinstance(value, dict):
        pairs = (f"{json.dumps(key, ensure_ascii=False)}: {text(value[key])}" for key in
                 in_order(value))  # fmt: skip
        return "{" + ", ".join(pairs) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(text, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


strings = st.text(
    st.characters(exclude_categories=["Cs"])
    | st.sampled_from('"\\/\0\n\t\b\f\r\x1f\x7fé漢😀')
    | st.characters(min_codepoint=32, max_codepoint=126),
    max_size=40,
)
scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**63), 2**64 - 1),
    st.integers(-70_000, 70_000),
    st.sampled_from([0.0, -0.0, 1.5, -2.0, 0.25, 1e14, 123456789012.5, 0.0001, 1e-3]),
    strings,
    st.integers(120, 700).map(lambda size: "long" * (size // 4)),
    st.just(opaque(15, b"\0\xff", '"base64:type15:AP8="')),
)
trees = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=5) | st.dictionaries(strings, inner, max_size=5),
    max_leaves=25,
)
"""Documents as Python has them."""
