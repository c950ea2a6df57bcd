"""MySQL's binary JSON, in which columns of type JSON are logged: read, written, and as text.

A value is kept in binary, a container whole, until it is opened: what is not opened costs nothing
and is written back unchanged.

Source: mysql-server, sql-common/json_binary.h and json_binary.cc; for the text, json_dom.cc,
wrapper_to_string; strings/dtoa.cc, my_gcvt; strings/decimal.cc, bin2decimal; sql-common/my_time.cc.
"""

from __future__ import annotations

import base64
import struct
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from io import BytesIO
from json.encoder import encode_basestring
from math import isfinite
from typing import TypeAlias

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.column_types import ColumnType, decimal_groups
from airflow_provider_binlog.errors import FormatError, TruncatedError


class JsonType(IntEnum):
    """The type of a value in binary JSON.

        root:    | type | value |
        object:  | n count | n size | keys: n offset, 2 size | values: type, n slot | keys, values |
        array:   | n count | n size | values: type, n slot | values |
        string:  | length, 7 bits a byte, the low ones first, the top bit: more follow | UTF-8 |
        opaque:  | SQL type | length as of a string | bytes |

    `n` is 2 bytes in the small form of a container and 4 in the large one. A slot holds a short
    value itself, else the value's offset from the container's start, after its type. A document
    updated in place has unused bytes between its values.
    """

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

STRING_SIZE_BYTES_MAX = 5
"""Most bytes of the length of a string."""

_DATE_AND_TIME = (ColumnType.DATETIME, ColumnType.TIMESTAMP)
_BASE64_LINE = 76
_MICROSECONDS = 1_000_000
# In between, Python and MySQL print a double alike.
_SAME_MIN, _SAME_MAX = 1e-4, 1e15

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
        FormatError: The document has no known type.
        TruncatedError: The document ends inside the value.
    """
    if not document:  # of a column that was given NULL, and may not hold it
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


# ------------------------------------------------------------------- text


def to_text(document: bytes | memoryview) -> bytes:
    """Return a document as SELECT prints it, in UTF-8.

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
    if depth > DEPTH_MAX:
        raise FormatError("a JSON document is too deep", depth_max=DEPTH_MAX)
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


def variable_size(data: memoryview) -> tuple[int, int]:
    """Return a length, and how many bytes it takes itself."""
    size = 0
    for index, octet in enumerate(data[:STRING_SIZE_BYTES_MAX]):
        size |= (octet & 0x7F) << 7 * index
        if octet < 0x80:
            return size, index + 1
    if len(data) < STRING_SIZE_BYTES_MAX:
        raise TruncatedError("a JSON value ends early", left=len(data))
    raise FormatError("not the length of a JSON value")


def quote(text: memoryview) -> bytes:
    """Return text between quotes, with `"`, backslashes and control characters escaped."""
    try:
        return encode_basestring(str(text, "utf-8")).encode()
    except UnicodeDecodeError as error:
        raise FormatError("text of a JSON document is not UTF-8") from error


def string_text(data: memoryview) -> bytes:
    """Return a string's text."""
    size, begin = variable_size(data)
    return quote(data[begin : begin + size])


def double_text(data: memoryview) -> bytes:
    """Return a DOUBLE's text: the fewest digits that distinguish it from its neighbours.

    It has no exponent from 1e-15 up to 1e15, nor above where there are digits after the decimal
    point; it always has a decimal point or an exponent.
    """
    (number,) = struct.unpack("<d", data)
    if not isfinite(number):
        raise FormatError("not a number in a JSON document", number=number)
    if _SAME_MIN <= abs(number) < _SAME_MAX:
        return repr(number).encode()
    negative, digits, exponent = Decimal(repr(number)).as_tuple()
    text = "".join(map(str, digits)).strip("0") or "0"
    point = len(digits) + int(exponent) if number else 1
    if -15 < point <= 15 or len(text) > point > 0:
        whole, fraction = text[: max(point, 0)].ljust(point, "0"), text[max(point, 0) :]
        shown = f"{whole or 0}.{fraction.rjust(len(fraction) - min(point, 0), '0') or 0}"
    else:
        shown = f"{text[0]}{'.' + text[1:] if text[1:] else ''}e{point - 1}"
    return ("-" + shown if negative else shown).encode()


def opaque_text(data: memoryview) -> bytes:
    """Return the text of a value of another SQL type.

    A DECIMAL is a number as it stands, a date or time has 6 digits of a second, and bytes are
    printed as the server does it: `"base64:type15:AP8="`.
    """
    kind = data[0]
    size, begin = variable_size(data[1:])
    content = data[1 + begin : 1 + begin + size]
    if kind == ColumnType.NEWDECIMAL:
        return decimal_text(content)
    if kind == ColumnType.DATE:
        return b'"%s"' % _date_text(_packed(content) >> 41).encode()
    if kind in _DATE_AND_TIME:
        packed = _packed(content)
        if packed < 0:
            raise FormatError("not a date in a JSON document", packed=packed)
        clock = _clock_text(packed & (1 << 41) - 1)
        return b'"%s %s"' % (_date_text(packed >> 41).encode(), clock.encode())
    if kind == ColumnType.TIME:
        packed = _packed(content)
        return b'"%s%s"' % (b"-" if packed < 0 else b"", _clock_text(abs(packed)).encode())
    if kind == ColumnType.VAR_STRING:
        return quote(content)
    encoded = base64.b64encode(content)
    lines = [encoded[at : at + _BASE64_LINE] for at in range(0, len(encoded), _BASE64_LINE)]
    return b'"base64:type%d:%s"' % (kind, b"\\n".join(lines))


def _packed(content: memoryview) -> int:
    """Return a date or time as a number: | years and months, days 22 bits | 17 | 24 micros |."""
    if len(content) != 8:
        raise FormatError("not a date or time in a JSON document", size=len(content))
    return int.from_bytes(content, "little", signed=True)


def _date_text(packed: int) -> str:
    """Return a date of | year * 13 + month | day 5 bits |."""
    year, month = divmod(packed >> 5, 13)
    if not 0 <= year <= 9999:
        raise FormatError("not a date in a JSON document", year=year)
    return f"{year:04}-{month:02}-{packed & 31:02}"


def _clock_text(packed: int) -> str:
    """Return a time of | hour 10 | minute 6 | second 6 | micros 24 bits |."""
    clock, micros = packed >> 24, packed & 0xFFFFFF
    if micros >= _MICROSECONDS or clock >> 22:
        raise FormatError("not a time in a JSON document", packed=packed)
    return f"{clock >> 12:02}:{clock >> 6 & 63:02}:{clock & 63:02}.{micros:06}"


def decimal_text(content: memoryview) -> bytes:
    """Return a DECIMAL: | precision | scale | groups of digits as in a DECIMAL column |."""
    buffer = Buffer(content)
    precision, scale = buffer.uint(1), buffer.uint(1)
    groups = decimal_groups(precision, scale)
    data = bytearray(buffer.take(sum(group.size for group in groups)))
    if buffer.remaining:
        raise FormatError("not a DECIMAL in a JSON document", size=len(content))
    negative = data[0] < 0x80
    data[0] ^= 0x80
    if negative:
        data = bytearray(octet ^ 0xFF for octet in data)
    digits = ""
    for group in groups:
        number = int.from_bytes(data[group.offset : group.offset + group.size], "big")
        if number >= 10**group.digits:
            raise FormatError("not a DECIMAL in a JSON document", group=number)
        digits += f"{number:0{group.digits}}"
    whole = digits[: precision - scale].lstrip("0") or "0"
    shown = f"{whole}.{digits[precision - scale :]}" if scale else whole
    return ("-" + shown if negative else shown).encode()


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
