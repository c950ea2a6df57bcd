"""Columns of every type: how they are declared, filled and compared.

The server is asked in an unmistakable form (`select`): a number or text as it is, bytes as
hexadecimals. `show` brings the staged value into that form; nothing else knows the types.
"""

from __future__ import annotations

import json
import struct
import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from ipaddress import IPv4Address, IPv6Address
from random import Random
from typing import Any

from tests.oracle.charsets import Repertoires, letter, quoted, text
from tests.oracle.geometries import TYPES, geometry

Show = Callable[[Any], Any]
Make = Callable[[Random], str]
"""Makes an SQL expression of a value."""


@dataclass(frozen=True)
class Kind:
    """A column's type.

    Attributes:
        sql: As in CREATE TABLE, after the name.
        make: Makes a value.
        select: What to ask the server for; `{0}` is the column.
        show: The staged value in the form that `select` has.
        default: SQL literal of a default; None: the type takes none.
        changes: SQL expressions that change the column's value from its own; `{0}` is the column.
        wider: The same values in another type; None where nothing is wider.
    """

    sql: str
    make: Make
    select: str = "CAST({0} AS CHAR)"
    show: Show = str
    default: str | None = None
    changes: tuple[str, ...] = ()
    wider: str | None = None


_HEX = "HEX({0})"
_TEXT_HEX = "HEX(CONVERT({0} USING utf8mb4))"


def _bytes(value: bytes) -> str:
    return f"x'{value.hex()}'"


def _hex(value: str | bytes) -> str:
    return (value.encode() if isinstance(value, str) else bytes(value)).hex().upper()


def _integer(name: str, bits: int, wider: str | None) -> list[Kind]:
    half = 1 << (bits - 1)

    def signed(random: Random) -> str:
        return str(random.choice([-half, half - 1, 0, -1, random.randrange(-half, half)]))

    def unsigned(random: Random) -> str:
        top = 2 * half
        return str(random.choice([top - 1, half, 0, random.randrange(top)]))

    same = ("{0}", "-{0} DIV 2")
    return [
        Kind(name, signed, default="7", changes=same, wider=wider),
        Kind(
            f"{name} unsigned",
            unsigned,
            default="7",
            changes=("{0} DIV 2",),
            wider=wider and f"{wider} unsigned",
        ),
    ]


def _decimal(precision: int, scale: int) -> Kind:
    def make(random: Random) -> str:
        digits = str(random.choice([0, 10**precision - 1, random.randrange(10**precision)]))
        digits = digits.rjust(scale + 1, "0")
        point = len(digits) - scale
        number = digits[:point] + ("." + digits[point:] if scale else "")
        return random.choice(["", "-"]) + number

    def show(value: Decimal | str) -> str:
        return value if isinstance(value, str) else f"{value:f}"

    return Kind(f"decimal({precision},{scale})", make, show=show, default="0")


def _real(name: str, pack: str) -> Kind:
    def make(random: Random) -> str:
        number = random.choice([0.0, 0.1, -1.5, random.uniform(-1e30, 1e30), random.random()])
        return repr(struct.unpack(pack, struct.pack(pack, number))[0])

    return Kind(name, make, "{0} + 0e0", float, default="1.5", changes=("{0} / 2",))


def _bit(bits: int) -> Kind:
    def show(value: bool | bytes) -> int:
        return int.from_bytes(value, "big") if isinstance(value, bytes) else int(value)

    return Kind(
        f"bit({bits})",
        lambda random: str(random.choice([0, (1 << bits) - 1, random.randrange(1 << bits)])),
        "{0} + 0",
        show,
        default="b'1'",
    )


def _year() -> Kind:
    years = ("0", "1901", "2155")
    return Kind(
        "year",
        lambda random: random.choice([*years, str(random.randint(1901, 2155))]),
        "{0} + 0",
        int,
        default="2001",
    )


def _fraction(fsp: int, micros: int) -> str:
    return f".{micros:06}"[: fsp + 1] if fsp else ""


def _day(random: Random) -> str:
    year = random.choice([1000, 1969, 2024, 9999, random.randint(1000, 9999)])
    return f"{year:04}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"


def _clock(random: Random, fsp: int) -> str:
    clock = f"{random.randint(0, 23):02}:{random.randint(0, 59):02}:{random.randint(0, 59):02}"
    return clock + _fraction(fsp, random.randint(0, 999_999))


_ZERO = "0000-00-00"
# Not the days of any calendar: under ALLOW_INVALID_DATES a server takes all of them.
_NO_DAYS = (_ZERO, _ZERO, "2024-00-10", "2024-05-00", "2023-02-31", "0000-03-04", "9999-00-00")
# What is no day stands in the lake as NULL.
_IF_DAY = (
    "IF(YEAR({0}) * MONTH({0}) * DAYOFMONTH({0}) = 0"
    " OR DAYOFMONTH({0}) > DAYOFMONTH(LAST_DAY({0})), NULL, CAST({0} AS CHAR))"
)


def _any_day(random: Random) -> str:
    return random.choice([random.choice(_NO_DAYS), _day(random), _day(random)])


def _date() -> Kind:
    return Kind(
        "date",
        lambda random: f"'{_any_day(random)}'",
        _IF_DAY,
        lambda value: f"{value.year:04}-{value:%m-%d}",
        default="'2001-02-03'",
    )


def _datetime(fsp: int) -> Kind:
    return Kind(
        f"datetime({fsp})",
        lambda random: f"'{_any_day(random)} {random.choice(['00:00:00', _clock(random, fsp)])}'",
        _IF_DAY,
        _show_moment(fsp),
        default="'2001-02-03 04:05:06'",
    )


def _timestamp(fsp: int) -> Kind:
    def make(random: Random) -> str:
        year = random.choice([1971, 2024, 2037])
        day = f"{year}-{random.randint(1, 12):02}-{random.randint(1, 28):02}"
        moment = f"{day} {_clock(random, fsp)}"
        return f"'{random.choice([f'{_ZERO} 00:00:00', moment, moment])}'"

    return Kind(
        f"timestamp({fsp}) NULL",
        make,
        "IF({0} = 0, NULL, CAST({0} AS CHAR))",
        _show_moment(fsp),
        default="'2001-02-03 04:05:06'",
    )


def _show_moment(fsp: int) -> Show:
    def show(value: datetime) -> str:
        whole = f"{value.year:04}-{value:%m-%d %H:%M:%S}"
        return whole + _fraction(fsp, value.microsecond)

    return show


def _time(fsp: int) -> Kind:
    def make(random: Random) -> str:
        hours = random.choice([0, 23, 24, 837, random.randint(0, 837)])
        rest = _clock(random, fsp)[2:]
        return f"'{random.choice(['', '-'])}{hours:02}{rest}'"

    def show(micros: int) -> str:
        seconds, rest = divmod(abs(micros), 1_000_000)
        clock = f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}"
        return ("-" if micros < 0 else "") + clock + _fraction(fsp, rest)

    return Kind(f"time({fsp})", make, show=show, default="'-01:02:03'")


def _characters(random: Random, known: Repertoires) -> Kind:
    charset = random.choice(list(known))
    size = random.choice([1, 10, 60, 63])
    name = random.choice([f"char({size})", f"varchar({size})", "varchar(300)"])
    wider = f"varchar(400) CHARACTER SET {charset}" if name == "varchar(300)" else None
    return Kind(
        f"{name} CHARACTER SET {charset}",
        lambda random: quoted(text(random, size, known[charset])),
        # Of this set a column is made one of bytes.
        _HEX if charset == "binary" else _TEXT_HEX,
        _hex,
        default=f"'{letter(random, known[charset])}'",
        changes=("CONCAT(LEFT({0}, 5), 'y')",) if size > 9 else (),
        wider=wider,
    )


def _long_text(random: Random, known: Repertoires) -> Kind:
    charset = random.choice(list(known))
    return Kind(
        f"{random.choice(['tinytext', 'text', 'mediumtext', 'longtext'])} CHARACTER SET {charset}",
        lambda random: quoted(text(random, random.choice([5, 60]), known[charset])),
        _HEX if charset == "binary" else _TEXT_HEX,
        _hex,
        changes=("CONCAT(LEFT({0}, 5), 'y')",),
    )


def _binary(random: Random) -> Kind:
    name = random.choice(["binary(5)", "binary(255)", "varbinary(20)", "varbinary(400)"])
    name = random.choice([name, "tinyblob", "blob", "mediumblob", "longblob"])

    def make(random: Random) -> str:
        value = random.choice([b"", b"\0\0", random.randbytes(random.randint(0, 5))])
        return _bytes(value)

    takes_default = "blob" not in name
    return Kind(name, make, _HEX, _hex, default="x'0102'" if takes_default else None)


def _enums(random: Random, known: Repertoires) -> Kind:
    charset = random.choice([each for each in known if known[each]])
    mark = random.choice(["", letter(random, known[charset])])
    if random.random() < 0.5:
        count = random.choice([1, 3, 255, 256, 300])
        values = [f"l{n}{mark}" for n in range(count)]
        listed = ", ".join(f"'{each}'" for each in values)
        return Kind(
            f"enum({listed}) CHARACTER SET {charset}",
            lambda random: str(random.choice([1, count, random.randint(1, count)])),
            _TEXT_HEX,
            _hex,
            default=f"'{values[0]}'",
            wider=f"enum({listed}, 'added') CHARACTER SET {charset}",
        )
    count = random.choice([1, 8, 9, 33, 64])
    listed = ", ".join(f"'s{n}{mark}'" for n in range(count))
    return Kind(
        f"set({listed}) CHARACTER SET {charset}",
        lambda random: str(random.choice([0, (1 << count) - 1, random.randrange(1 << count)])),
        _TEXT_HEX,
        _hex,
        default=f"'s0{mark}'",
    )


def _tree(random: Random, depth: int = 0) -> Any:
    roll = random.random()
    if depth < 4 and roll < 0.3:
        count = random.choice([0, 1, 3, 8])
        return {text(random, 6): _tree(random, depth + 1) for _ in range(count)}
    if depth < 4 and roll < 0.5:
        return [_tree(random, depth + 1) for _ in range(random.choice([0, 1, 4, 20]))]
    return random.choice(
        [
            *[None, True, False, 0, -1, 2**15, 2**31, 2**63, -(2**63), 2**64 - 1],
            *[0.1, 1e15, 1e-7, -0.0, 1.5e300, random.random(), random.uniform(-1e20, 1e20)],
            *[text(random, 5), text(random, 70), "x" * random.choice([127, 128, 300])],
        ]
    )


def _json() -> Kind:
    # Values that no JSON text has: SQL's own, which stay what they are inside a document.
    own = (
        "CAST('2024-02-29' AS DATE)",
        "CAST('2024-02-29 01:02:03.000004' AS DATETIME(6))",
        "CAST('-101:02:03.5' AS TIME(1))",
        "CAST(-12.340 AS DECIMAL(10,3))",
        "x'00ff10'",
        "b'101'",
        "true",
    )

    def make(random: Random) -> str:
        document = quoted(json.dumps(_tree(random), ensure_ascii=random.random() < 0.5))
        if random.random() < 0.2:
            return f"JSON_OBJECT('a', {random.choice(own)}, 'b', CAST({document} AS JSON))"
        return document

    number = "'a', 1, 'b', JSON_OBJECT('c', JSON_ARRAY(1, 2, 'three'))"
    return Kind(
        "json",
        make,
        changes=(
            "JSON_SET({0}, '$.a', 5)",
            "JSON_SET({0}, '$.a', 'a longer text than there was', '$.n', JSON_ARRAY(1, NULL))",
            "JSON_REPLACE({0}, '$.a', 1.5, '$.b', '')",
            "JSON_REMOVE({0}, '$.a')",
            "JSON_REMOVE({0}, '$[0]')",
            "JSON_ARRAY_INSERT({0}, '$[0]', 'first')",
            "JSON_ARRAY_APPEND({0}, '$', 1)",
            "JSON_SET({0}, '$[1]', 2)",
            f"JSON_OBJECT({number})",
            "JSON_SET({0}, '$.b.c[1]', 'two', '$.\"a b\"', 3)",
        ),
    )


def _geometry(random: Random, server: str) -> Kind:
    name = random.choice(TYPES)
    srid = random.choice([None, 0, 4326])
    word = " SRID " if server.startswith("mysql") else " REF_SYSTEM_ID="

    def make(random: Random) -> str:
        number = random.choice([0, 0, 3857, 4326]) if srid is None else srid
        return f"ST_GeomFromText('{geometry(random, name)}', {number})"

    return Kind(name if srid is None else f"{name}{word}{srid}", make, _HEX, _hex)


def _show_vector(value: bytes | list[float]) -> str:
    packed = value if isinstance(value, bytes) else struct.pack(f"<{len(value)}f", *value)
    return packed.hex().upper()


def _vector() -> Kind:
    def make(random: Random) -> str:
        return _bytes(struct.pack("<4f", *(random.uniform(-9, 9) for _ in range(4))))

    return Kind("vector(4)", make, _HEX, _show_vector)


def _mariadb_only(random: Random) -> Kind:
    def ipv4(random: Random) -> str:
        return f"'{IPv4Address(random.choice([0, 2**32 - 1, random.getrandbits(32)]))}'"

    def uuid_text(random: Random) -> str:
        return f"'{uuid.UUID(int=random.choice([0, 1 << 64, random.getrandbits(128)]))}'"

    def ipv6(random: Random) -> str:
        number = random.choice([0, 1, 0xFFFF_0102_0304, random.getrandbits(128)])
        return f"'{IPv6Address(number)}'"

    compressed = random.choice(["varchar(300)", "text"])
    return random.choice(
        [
            Kind("uuid", uuid_text),
            Kind("inet6", ipv6),
            Kind("inet4", ipv4),
            Kind(f"{compressed} COMPRESSED", lambda r: quoted(text(r, 200)), _TEXT_HEX, _hex),
            Kind("blob COMPRESSED", lambda r: _bytes(b"ab" * r.choice([0, 5, 90])), _HEX, _hex),
        ]
    )


def _plain(random: Random, server: str, known: Repertoires) -> Kind:
    precision = random.choice([1, 9, 10, 18, 19, 38, 39, 65])
    fsp = random.randint(0, 6)
    families: Sequence[Callable[[], Kind]] = (
        lambda: random.choice(_integer("tinyint", 8, "smallint")),
        lambda: random.choice(_integer("smallint", 16, "int")),
        lambda: random.choice(_integer("mediumint", 24, "int")),
        lambda: random.choice(_integer("int", 32, "bigint")),
        lambda: random.choice(_integer("bigint", 64, None)),
        lambda: _decimal(precision, random.randint(0, min(30, precision))),
        lambda: _real("float", "<f"),
        lambda: _real("double", "<d"),
        lambda: _bit(random.choice([1, 7, 8, 33, 64])),
        _year,
        _date,
        lambda: _datetime(fsp),
        lambda: _timestamp(fsp),
        lambda: _time(fsp),
        lambda: _characters(random, known),
        lambda: _characters(random, known),
        lambda: _long_text(random, known),
        lambda: _binary(random),
        lambda: _enums(random, known),
        lambda: _geometry(random, server),
    )
    return random.choice(families)()


def random_kind(random: Random, server: str, known: Repertoires) -> Kind:
    """Return one of the types that a kind of server has, in one of its character sets."""
    roll = random.random()
    if server.startswith("mysql"):
        if roll < 0.15:
            return _json()
        if roll < 0.2 and not server.startswith("mysql80"):
            return _vector()
    elif roll < 0.15:
        return _mariadb_only(random)
    elif roll < 0.2 and server == "mariadb118":
        return _vector()
    return _plain(random, server, known)


_WORDS = (
    *("", "plain", "été", "日本語", "😀 emoji", "line\nbreak \0 zero", "' quote \\ slash"),
    "x" * 150,
)


def _words(sql: str, words: Sequence[str] = _WORDS, repeats: Sequence[int] = (1,)) -> Kind:
    def make(random: Random) -> str:
        return quoted(f"{random.choice(words)} {random.randint(0, 99)}" * random.choice(repeats))

    return Kind(sql, make, _TEXT_HEX, _hex, changes=("CONCAT(LEFT({0}, 5), '!')",))


def _bytes_of(sql: str, sizes: Sequence[int]) -> Kind:
    return Kind(sql, lambda random: _bytes(random.randbytes(random.choice(sizes))), _HEX, _hex)


def _listed(sql: str, values: Sequence[str]) -> Kind:
    return Kind(sql, lambda random: quoted(random.choice(values)), _TEXT_HEX, _hex)


def common_kinds() -> list[Kind]:
    """Return types that every server has, of every family but JSON and geometries."""
    return [
        *(
            _integer("bigint", 64, None)[1],
            *_integer("int", 32, None),
            *_integer("smallint", 16, None),
        ),
        *(_real("double", "<d"), _decimal(20, 4), _decimal(50, 10), _bit(10), _year()),
        *(_date(), _datetime(6), _timestamp(3), _time(2)),
        *(_words("varchar(200)"), _words("text", repeats=(1, 1, 40))),
        _words("varchar(40) CHARACTER SET gbk", ("漢字", "plain")),
        _listed("char(8) CHARACTER SET latin1", ("", "t", "tschüß")),
        *(_bytes_of("binary(5)", range(5)), _bytes_of("blob", (0, 10, 3000))),
        _listed("enum('new','grün','done')", ("new", "grün", "done")),
        _listed("set('a','b','c')", ("", "a", "a,c", "a,b,c")),
    ]


def as_shown(kind: Kind, value: Any) -> Any:
    """Return a staged value in the form in which the server is asked for it."""
    return None if value is None else kind.show(value)


def as_selected(value: Any) -> Any:
    """Return what the server answered, numbers as plain numbers."""
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    if isinstance(value, date):
        raise TypeError("ask for dates as text")
    return value.decode() if isinstance(value, bytes) else value
