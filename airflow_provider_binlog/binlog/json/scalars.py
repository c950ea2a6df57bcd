"""The text of the scalars of a JSON document: numbers, strings, and values of other SQL types.

    string: | length, 7 bits a byte, the low ones first, the top bit: more follow | UTF-8 |
    opaque: | SQL type | length as of a string | bytes |

Opaque values are DECIMALs (a number as it stands), dates and times (text with 6 digits of a
second), and bytes, which are printed as the server does it: `"base64:type15:AP8="`.

Source: mysql-server, sql-common/json_dom.cc, wrapper_to_string; strings/dtoa.cc, my_gcvt;
strings/decimal.cc, bin2decimal; sql-common/my_time.cc, TIME_from_longlong_packed;
mysys/base64_encode.
"""

from __future__ import annotations

import base64
import struct
from decimal import Decimal
from json.encoder import encode_basestring
from math import isfinite

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.column_types import ColumnType
from airflow_provider_binlog.errors import FormatError, TruncatedError

STRING_SIZE_BYTES_MAX = 5
"""A length has at most so many bytes."""

_DATE_AND_TIME = (ColumnType.DATETIME, ColumnType.TIMESTAMP)
_DECIMAL_GROUP_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
_BASE64_LINE = 76
_MICROSECONDS = 1_000_000
# In between, Python and MySQL print a double alike.
_SAME_MIN, _SAME_MAX = 1e-4, 1e15


def variable_size(data: memoryview) -> tuple[int, int]:
    """Return a length, and how many bytes it takes itself.

    Raises:
        TruncatedError: `data` ends inside it.
        FormatError: The length has more than 5 bytes.
    """
    size = 0
    for index, octet in enumerate(data[:STRING_SIZE_BYTES_MAX]):
        size |= (octet & 0x7F) << 7 * index
        if octet < 0x80:
            return size, index + 1
    if len(data) < STRING_SIZE_BYTES_MAX:
        raise TruncatedError("a JSON value ends early", left=len(data))
    raise FormatError("not the length of a JSON value")


def quote(text: memoryview) -> bytes:
    """Return text between quotes, with `"`, backslashes and control characters escaped.

    Raises:
        FormatError: The text is not UTF-8.
    """
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

    Raises:
        FormatError: The value is invalid for its type.
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
    if not (1 <= precision <= 65 and scale <= min(30, precision)):
        raise FormatError("not a DECIMAL in a JSON document", precision=precision, scale=scale)
    whole = precision - scale
    groups = [whole % 9, *[9] * (whole // 9), *[9] * (scale // 9), scale % 9]
    size = sum(_DECIMAL_GROUP_BYTES[count] for count in groups)
    data = bytearray(buffer.take(size))
    if buffer.remaining:
        raise FormatError("not a DECIMAL in a JSON document", size=len(content))
    negative = data[0] < 0x80
    data[0] ^= 0x80
    if negative:
        data = bytearray(octet ^ 0xFF for octet in data)
    parts, digits = Buffer(bytes(data)), ""
    for count in groups:
        group = int.from_bytes(parts.take(_DECIMAL_GROUP_BYTES[count]), "big")
        if group >= 10**count:
            raise FormatError("not a DECIMAL in a JSON document", group=group)
        digits += f"{group:0{count}}" if count else ""
    shown = digits[:whole].lstrip("0") or "0"
    shown += "." + digits[whole:] if scale else ""
    return ("-" + shown if negative else shown).encode()
