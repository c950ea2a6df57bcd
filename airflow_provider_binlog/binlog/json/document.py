"""MySQL's binary JSON, in which columns of type JSON are logged: read, written, and as text.

    document: | type | value |
    object:   | n count | n size | keys: n offset, 2 size | values: type, n slot | keys, values |
    array:    | n count | n size | values: type, n slot | values |

`n` is 2 bytes in the small form of a container and 4 in the large one. A slot holds a short value
itself, else the value's offset; offsets count from the container's start, after its type. A
document updated in place has unused bytes between its values. A column that was given NULL, and may
not hold it, has a document of no bytes, which is `null`.

A value is kept in binary, a container whole, until it is opened: what is not opened costs nothing
and is written back unchanged.

Source: mysql-server, sql-common/json_binary.h and json_binary.cc.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from io import BytesIO
from typing import TYPE_CHECKING, TypeAlias

from airflow_provider_binlog.binlog.json.scalars import (
    double_text,
    opaque_text,
    quote,
    string_text,
    variable_size,
)
from airflow_provider_binlog.errors import FormatError, TruncatedError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence


class JsonType(IntEnum):
    """The type of a value in binary JSON."""

    SMALL_OBJECT = 0x00
    LARGE_OBJECT = 0x01
    SMALL_ARRAY = 0x02
    LARGE_ARRAY = 0x03
    LITERAL = 0x04
    INT16 = 0x05
    UINT16 = 0x06
    INT32 = 0x07
    UINT32 = 0x08
    INT64 = 0x09
    UINT64 = 0x0A
    DOUBLE = 0x0B
    STRING = 0x0C
    OPAQUE = 0x0F


DEPTH_MAX = 100
"""Containers inside each other, the outermost counted. Source: JSON_DOCUMENT_MAX_DEPTH."""

LITERALS = (b"null", b"true", b"false")
OBJECTS = (JsonType.SMALL_OBJECT, JsonType.LARGE_OBJECT)
ARRAYS = (JsonType.SMALL_ARRAY, JsonType.LARGE_ARRAY)
LARGE = (JsonType.LARGE_OBJECT, JsonType.LARGE_ARRAY)
CONTAINERS = (*OBJECTS, *ARRAYS)

FIXED_SIZES: dict[int, int] = {
    JsonType.LITERAL: 1,
    JsonType.INT16: 2,
    JsonType.UINT16: 2,
    JsonType.INT32: 4,
    JsonType.UINT32: 4,
    JsonType.INT64: 8,
    JsonType.UINT64: 8,
    JsonType.DOUBLE: 8,
}

_SMALL_SIZE_MAX = 0xFFFF
_LARGE_SIZE_MAX = 0xFFFFFFFF
KEY_SIZE_MAX = 0xFFFF


_SHORT = frozenset({JsonType.LITERAL, JsonType.INT16, JsonType.UINT16})
INLINED: dict[int, frozenset[int]] = {
    2: _SHORT,
    4: _SHORT | {JsonType.INT32, JsonType.UINT32},
}
"""By the bytes of a slot: the types of values that it holds itself."""


@dataclass(frozen=True, slots=True)
class Value:
    """A scalar, or a container not yet opened.

    Attributes:
        type: A `JsonType`.
        data: Its bytes without the type.
    """

    type: int
    data: bytes | memoryview


Node: TypeAlias = "Value | dict[bytes, Node] | list[Node]"
"""A value, an opened object by key, or an opened array."""


def read(document: bytes | memoryview) -> Value:
    """Return a document's value, a view.

    Raises:
        FormatError: The document has no known type, or bytes follow its value.
        TruncatedError: The document ends inside the value.
    """
    if not document:
        return Value(JsonType.LITERAL, b"\0")
    data = memoryview(document)[1:]
    return Value(document[0], data[: _size(document[0], data)])


def open_value(value: Value) -> Node:
    """Return a container's members or elements, themselves unopened; of a scalar, itself.

    Raises:
        FormatError: The container breaks the format, or has a key twice.
    """
    if value.type in ARRAYS:
        return [element for _, element in members(value)]
    if value.type not in OBJECTS:
        return value
    opened: dict[bytes, Node] = {}
    for key, member in members(value):
        if bytes(key) in opened:
            raise FormatError("a JSON object has a key twice", key=bytes(key))
        opened[bytes(key)] = member
    return opened


def members(container: Value) -> Iterator[tuple[memoryview, Value]]:
    """Yield the key and the value of each member, as they stand; keys of elements are empty.

    Raises:
        FormatError: An offset leads outside of the container, or values overlap.
        TruncatedError: The container ends inside its header.
    """
    data = memoryview(container.data)
    width = 4 if container.type in LARGE else 2
    count = int.from_bytes(data[:width], "little")
    key_entry = width + 2 if container.type in OBJECTS else 0
    entries = 2 * width + key_entry * count
    # What header, keys and values take cannot be more than there is: no byte is read twice.
    left = len(data) - entries - (1 + width) * count
    for index in range(count if left >= 0 else 0):
        key = data[:0]
        if key_entry:
            at = 2 * width + key_entry * index
            begin = int.from_bytes(data[at : at + width], "little")
            size = int.from_bytes(data[at + width : at + key_entry], "little")
            key = data[begin : begin + size]
            left -= size
            if begin + size > len(data):
                raise FormatError("a key lies outside of its JSON object", at=begin)
        at = entries + (1 + width) * index
        value = _value(data, at, width)
        if value.type not in INLINED[width]:
            left -= len(value.data)
        if left < 0:
            break
        yield key, value
    if left < 0:
        raise FormatError("the values of a JSON container overlap", size=len(data), count=count)


def _value(data: memoryview, at: int, width: int) -> Value:
    """Return the value whose type and slot stand at `at`."""
    type_code, slot = data[at], data[at + 1 : at + 1 + width]
    if type_code in INLINED[width]:
        return Value(type_code, slot[: FIXED_SIZES[type_code]])
    begin = int.from_bytes(slot, "little")
    if begin > len(data):
        raise FormatError("a value lies outside of its JSON container", at=begin)
    size = _size(type_code, data[begin:])
    return Value(type_code, data[begin : begin + size])


def _size(type_code: int, data: memoryview) -> int:
    """Return the size of the value that `data` begins with."""
    if type_code in CONTAINERS:
        width = 4 if type_code in LARGE else 2
        if len(data) < 2 * width:
            raise TruncatedError("a JSON value ends early", wanted=2 * width, left=len(data))
        size = int.from_bytes(data[width : 2 * width], "little")
        if size < 2 * width:
            raise FormatError("a JSON container smaller than its header", size=size)
    elif type_code in FIXED_SIZES:
        size = FIXED_SIZES[type_code]
    elif type_code == JsonType.STRING:
        size = sum(variable_size(data))
    elif type_code == JsonType.OPAQUE:
        size = 1 + sum(variable_size(data[1:]))
    else:
        raise FormatError("not a type of JSON value", type=type_code)
    if size > len(data):
        raise TruncatedError("a JSON value ends early", wanted=size, left=len(data))
    return size


def _check_depth(depth: int) -> None:
    if depth > DEPTH_MAX:
        raise FormatError("a JSON document is too deep", depth_max=DEPTH_MAX)


# ------------------------------------------------------------------- text


def to_text(document: bytes | memoryview) -> bytes:
    """Return a document as SELECT prints it, in UTF-8.

    What it takes besides is a few bytes per level, whatever the document's size.

    Raises:
        FormatError: The document breaks the format.
    """
    text = BytesIO()
    _print(read(document), 1, text.write)
    return text.getvalue()


def _print(value: Value, depth: int, write: Callable[[bytes], object]) -> None:
    if value.type not in CONTAINERS:
        write(_SCALARS[value.type](memoryview(value.data)))
        return
    _check_depth(depth)
    is_object = value.type in OBJECTS
    separator = b"{" if is_object else b"["
    empty = True
    for key, member in members(value):
        write(separator)
        if is_object:
            write(quote(key))
            write(b": ")
        _print(member, depth + 1, write)
        separator, empty = b", ", False
    if empty:
        write(separator)
    write(b"}" if is_object else b"]")


def _literal(data: memoryview) -> bytes:
    if data[0] >= len(LITERALS):
        raise FormatError("not a literal of JSON", number=data[0])
    return LITERALS[data[0]]


def _signed(data: memoryview) -> bytes:
    return b"%d" % int.from_bytes(data, "little", signed=True)


def _unsigned(data: memoryview) -> bytes:
    return b"%d" % int.from_bytes(data, "little")


_SCALARS: dict[int, Callable[[memoryview], bytes]] = {
    JsonType.LITERAL: _literal,
    JsonType.INT16: _signed,
    JsonType.UINT16: _unsigned,
    JsonType.INT32: _signed,
    JsonType.UINT32: _unsigned,
    JsonType.INT64: _signed,
    JsonType.UINT64: _unsigned,
    JsonType.DOUBLE: double_text,
    JsonType.STRING: string_text,
    JsonType.OPAQUE: opaque_text,
}


# ------------------------------------------------------------------- writing


def encode(node: Node) -> bytes:
    """Return a document, laid out as the server writes a new one.

    Raises:
        FormatError: The document is too large for the format, or a key is too long.
    """
    value = _close(node)
    return b"".join([bytes([value.type]), value.data])


def _close(node: Node) -> Value:
    """Return an opened container as a value."""
    if isinstance(node, Value):
        return node
    if isinstance(node, list):
        closed = [_close(element) for element in node]
        return _container(JsonType.SMALL_ARRAY, JsonType.LARGE_ARRAY, None, closed)
    keys = sorted(node, key=lambda key: (len(key), key))
    closed = [_close(node[key]) for key in keys]
    return _container(JsonType.SMALL_OBJECT, JsonType.LARGE_OBJECT, keys, closed)


def _container(
    small: JsonType, large: JsonType, keys: Sequence[bytes] | None, values: Sequence[Value]
) -> Value:
    """Return a container, in the small form if that holds it."""
    if keys and len(keys[-1]) > KEY_SIZE_MAX:
        raise FormatError("a key of JSON is too long", size=len(keys[-1]))
    if _total_size(keys, values, 2) <= _SMALL_SIZE_MAX:
        return Value(small, _layout(keys, values, 2))
    if _total_size(keys, values, 4) > _LARGE_SIZE_MAX:
        raise FormatError("a JSON container is too large")
    return Value(large, _layout(keys, values, 4))


def _total_size(keys: Sequence[bytes] | None, values: Sequence[Value], width: int) -> int:
    header = 2 * width + (1 + width) * len(values)
    if keys is not None:
        header += sum(width + 2 + len(key) for key in keys)
    return header + sum(len(item.data) for item in values if item.type not in INLINED[width])


def _layout(keys: Sequence[bytes] | None, values: Sequence[Value], width: int) -> bytes:
    size = _total_size(keys, values, width)
    pieces: list[bytes | memoryview] = [_uint(len(values), width), _uint(size, width)]
    at = 2 * width + (1 + width) * len(values)
    if keys is not None:
        at += (width + 2) * len(keys)
        for key in keys:
            pieces += [_uint(at, width), _uint(len(key), 2)]
            at += len(key)
    for value in values:
        pieces.append(bytes([value.type]))
        if value.type in INLINED[width]:
            signed = value.type in (JsonType.INT16, JsonType.INT32)
            number = int.from_bytes(value.data, "little", signed=signed)
            pieces.append(number.to_bytes(width, "little", signed=signed))
        else:
            pieces.append(_uint(at, width))
            at += len(value.data)
    pieces += keys or ()
    pieces += [item.data for item in values if item.type not in INLINED[width]]
    return b"".join(pieces)


def _uint(number: int, width: int) -> bytes:
    return number.to_bytes(width, "little")
