"""Text of every character set of MySQL and MariaDB, by collation id.

A decoded value equals what `CONVERT(value USING utf8mb4)` gives on the server, down to the question
marks for codes that are well-formed but have no character. Decode many values in one call, joined
by NUL: it is part of no longer character in any of the sets.

The tables were taken from running servers, MySQL 8.0 to 9.7 and MariaDB 10.6 to 11.8: collations
from information_schema, characters from `CONVERT(... USING utf8mb4)` of every code.

Source: mysql-server, strings/ctype-*.cc, sql/field.cc; mariadb, strings/ctype-*.c; those servers.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Iterator
from functools import cache
from typing import Literal

from airflow_provider_binlog.errors import FormatError, UnsupportedError

# ruff: noqa: RUF001  (characters that resemble others are what a character set is made of)


_COLLATIONS = """
armscii8 32,64; ascii 11,65; big5 1,84; binary 63; cp1250 26,34,44,66,99; cp1251 14,23,50-52;
cp1256 57,67; cp1257 29,58-59; cp850 4,80; cp852 40,81; cp866 36,68; cp932 95-96; dec8 3,69;
eucjpms 97-98; euckr 19,85; gb18030 248-250; gb2312 24,86; gbk 28,87; geostd8 92-93;
greek 25,70; hebrew 16,71; hp8 6,72; keybcs2 37,73; koi8r 7,74; koi8u 22,75;
latin1 5,8,15,31,47-49,94; latin2 2,9,21,27,77; latin5 30,78; latin7 20,41-42,79; macce 38,43;
macroman 39,53; sjis 13,88; swe7 10,82; tis620 18,89; ucs2 35,90,128-151,159,640-642,2560-2759;
ujis 12,91; utf16 54-55,101-124,672-674,2816-3015; utf16le 56,62;
utf32 60-61,160-183,736-738,3072-3271; utf8mb3 33,76,83,192-215,223,576-579,2048-2247;
utf8mb4 45-46,224-247,255-271,273-275,277-294,296-298,300,303-323,608-611,2304-2503
"""
COLLATIONS = dict(entry.split() for entry in _COLLATIONS.split(";"))
"""Character set -> ids and ranges of ids of its collations, in both families. MariaDB adds 1024 to
the id of a collation for the variant that does not ignore spaces at the end."""

SINGLE_BYTE: dict[str, tuple[str, dict[int, str]]] = {
    "armscii8": (
        "latin-1",
        {
            0xA1: "❁§։)(»«—.՝,-՟…՜՛՞ԱաԲբԳգԴդԵեԶզԷէԸըԹթԺժԻիԼլԽխԾծԿկՀհՁձՂղՃճՄմՅյՆնՇշՈո",
            0xE2: "ՉչՊպՋջՌռՍսՎվՏտՐրՑցՒւՓփՔքՕօՖֆ’'",
        },
    ),
    "ascii": ("ascii", {}),
    "cp1250": ("cp1250", {}),
    "cp1251": ("cp1251", {}),
    "cp1256": ("cp1256", dict.fromkeys((0x8A, 0x8F, 0x98, 0x9A, 0x9F, 0xAA, 0xC0, 0xFF), "?")),
    "cp1257": ("cp1257", {}),
    "cp850": ("cp850", {}),
    "cp852": ("cp852", {}),
    "cp866": ("cp866", {0xFC: "ⁿ²"}),
    "dec8": (
        "latin-1",
        dict.fromkeys((0xA4, 0xA6, 0xB4, 0xB8, 0xBE, 0xD0, 0xDE, 0xF0, 0xFE, 0xFF), "?")
        | {0xA8: "¤", 0xAC: "????", 0xD7: "Œ", 0xDD: "Ÿ", 0xF7: "œ", 0xFD: "ÿ"},
    ),
    "geostd8": (
        "latin-1",
        {
            0x80: "€?‚?„…†‡?‰?‹?????‘’“”•–—???›????",
            0xC0: "აბგდევზჱთიკლმნჲოპჟრსტჳუფქღყშჩცძწჭხჴჯჰჵ" + 26 * "?",
            0xFD: "№??",
        },
    ),
    "greek": ("iso8859_7", {0xA1: "ʽʼ", 0xA4: "??", 0xAA: "?"}),
    "hebrew": ("iso8859_8", {0xAF: "‾"}),
    "hp8": ("hp_roman8", {}),
    "keybcs2": (
        "latin-1",
        {
            0x80: "ČüéďäĎŤčěĚĹÍľĺÄÁÉžŽôöÓůÚýÖÜŠĽÝŘťáíóúňŇŮÔšřŕŔ¼¡«»",
            0xB0: "░▒▓│┤╡╢╖╕╣║╗╝╜╛┐└┴┬├─┼╞╟╚╔╩╦╠═╬╧╨╤╥╙╘╒╓╫╪┘┌█▄▌▐▀",
            0xE0: "αßΓπΣσµτΦΘΩδ∞φε∩≡±≥≤⌠⌡÷≈°∙·√ⁿ²■\xa0",
        },
    ),
    "koi8r": ("koi8_r", {}),
    "koi8u": ("koi8_u", {0x95: "•"}),
    "latin1": ("cp1252", {code: chr(code) for code in (0x81, 0x8D, 0x8F, 0x90, 0x9D)}),
    "latin2": ("iso8859_2", {}),
    "latin5": ("iso8859_9", {}),
    "latin7": ("iso8859_13", {}),
    "macce": ("mac_latin2", {}),
    "macroman": ("mac_roman", {}),
    "swe7": ("ascii", {0x40: "É", 0x5B: "ÄÖÅÜ", 0x60: "é", 0x7B: "äöåü?"}),
    "tis620": ("tis_620", {0xA0: "\ufffd", 0xDB: 4 * "\ufffd", 0xFC: 4 * "\ufffd"}),
}
"""Character set -> Python's codec, and strings of characters to put instead from a code on.
A code that neither holds has no character: the servers convert it to a question mark."""

MULTI_BYTE: dict[str, tuple[str, str]] = {
    "big5": ("big5", r"[\xA1-\xF9][\x40-\x7E\xA1-\xFE]"),
    "cp932": ("cp932", r"[\xA1-\xDF]|[\x81-\x9F\xE0-\xFC][\x40-\x7E\x80-\xFC]"),
    "eucjpms": ("euc_jp", r"\x8E[\xA1-\xDF]|\x8F[\xA1-\xFE]{2}|[\xA1-\xFE]{2}"),
    "euckr": ("cp949", r"[\x81-\xFE][\x41-\x5A\x61-\x7A\x81-\xFE]"),
    "gb18030": (
        "gb18030",
        r"[\x81-\xFE][\x40-\x7E\x80-\xFE]|[\x81-\xFE][\x30-\x39][\x81-\xFE][\x30-\x39]",
    ),
    "gb2312": ("gb2312", r"[\xA1-\xF7][\xA1-\xFE]"),
    "gbk": ("gbk", r"[\x81-\xFE][\x40-\x7E\x80-\xFE]"),
    "sjis": ("shift_jis", r"[\xA1-\xDF]|[\x81-\x9F\xE0-\xFC][\x40-\x7E\x80-\xFC]"),
    "ujis": ("euc_jp", r"\x8E[\xA1-\xDF]|\x8F[\xA1-\xFE]{2}|[\xA1-\xFE]{2}"),
}
"""Character set -> Python's codec, and what a well-formed character above ASCII looks like."""

UNICODE = {
    "utf8mb3": ("utf-8", 1, 3),
    "utf8mb4": ("utf-8", 1, 4),
    "ucs2": ("utf-16-be", 2, 2),
    "utf16": ("utf-16-be", 2, 4),
    "utf16le": ("utf-16-le", 2, 4),
    "utf32": ("utf-32-be", 4, 4),
}
"""Character set -> Python's codec, bytes of a code unit, most bytes of a character."""

_MULTI_BYTE_MAX = {"eucjpms": 3, "gb18030": 4, "ujis": 3}

BYTES_PER_CHARACTER = (
    {name: maximum for name, (_, _, maximum) in UNICODE.items()}
    | {name: _MULTI_BYTE_MAX.get(name, 2) for name in MULTI_BYTE}
    | dict.fromkeys(SINGLE_BYTE, 1)
    | {"binary": 1}
)
"""Character set -> most bytes of a character: `Maxlen` of SHOW CHARACTER SET."""

CHANGED: dict[str, dict[bytes, str]] = {
    "big5": dict.fromkeys(
        (b"\xa1\x5a", b"\xa1\xc3", b"\xa1\xc5", b"\xa1\xfe", b"\xa2\x40", b"\xa2\xcc", b"\xa2\xce"),
        "\ufffd",
    )
    | {bytes((0xF9, 0xD6 + index)): character for index, character in enumerate("碁銹裏墻恒粧嫺")},
    "eucjpms": {
        b"\xa1\xc1": "～",
        b"\xa1\xc2": "∥",
        b"\xa1\xdd": "－",
        b"\xa1\xf1": "￠",
        b"\xa1\xf2": "￡",
        b"\xa2\xcc": "￢",
        b"\x8f\xa2\xb7": "～",
        b"\x8f\xa2\xc3": "￤",
    },
    "gb18030": {b"\xa8\xbc": "ḿ", b"\x81\x35\xf4\x37": "\ue7c7"},
    "sjis": {b"\x81\x5f": "\\"},
    "ujis": {b"\xa1\xc0": "\\"},
}
"""Multi-byte codes that Python's codec decodes to another character, or not at all."""

# Row 13 of NEC, in three runs by their first column, and the characters that IBM added.
_NEC_ROW_13 = {
    0xA1: "①②③④⑤⑥⑦⑧⑨⑩⑪⑫⑬⑭⑮⑯⑰⑱⑲⑳ⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ",
    0xC0: "㍉㌔㌢㍍㌘㌧㌃㌶㍑㍗㌍㌦㌣㌫㍊㌻㎜㎝㎞㎎㎏㏄㎡",
    0xDF: "㍻〝〟№㏍℡㊤㊥㊦㊧㊨㈱㈲㈹㍾㍽㍼≒≡∫∮∑√⊥∠∟⊿∵∩∪",
}
# The compatibility ideographs are escaped: an editor that normalises would replace them.
_IBM_EXTENSIONS = (
    "ⅰⅱⅲⅳⅴⅵⅶⅷⅸⅹⅠⅡⅢⅣⅤⅥⅦⅧⅨⅩ＇＂㈱№℡炻仼僴凬匇匤\ufa0e咊坙\ufa0f\ufa10"
    "增寬峵嵓\ufa11德悅愠敎昻晥\ufa12\uf929栁\ufa13\ufa14橫櫢淸淲瀨\ufa15\ufa16甁皂皞"
    "\ufa17礰\ufa18\ufa19\ufa1a\ufa1b竧\ufa1c\ufa1d綠緖\ufa1e荢\ufa1f薰\ufa20\ufa21蠇"
    "\ufa22譿賴赶\ufa23\ufa24\ufa25郞\ufa26鄕\ufa27\ufa28閒\uf9dc\ufa29霻靍靑\ufa2a\ufa2b"
    "\ufa2c馞髙魲\ufa2d黑"
)
_EUC_ROW = 94  # codes per row, 0xA1 to 0xFE


def _euc_rows(first: tuple[int, int], characters: str, prefix: bytes = b"") -> dict[bytes, str]:
    """Return `characters` by their codes from (row, column) on."""
    start = (first[0] - 0xA1) * _EUC_ROW + first[1] - 0xA1
    return {
        prefix + bytes((0xA1 + index // _EUC_ROW, 0xA1 + index % _EUC_ROW)): character
        for index, character in enumerate(characters, start)
    }


# The ten last rows of both EUC planes are the user's: they map to the private use area.
_PRIVATE = "".join(map(chr, range(0xE000, 0xE000 + 10 * _EUC_ROW)))
_PRIVATE_3 = "".join(map(chr, range(0xE3AC, 0xE3AC + 10 * _EUC_ROW)))
_PRIVATE_CODES = _euc_rows((0xF5, 0xA1), _PRIVATE) | _euc_rows((0xF5, 0xA1), _PRIVATE_3, b"\x8f")
CHANGED["ujis"] |= _PRIVATE_CODES
CHANGED["eucjpms"] |= _PRIVATE_CODES | _euc_rows((0xF3, 0xF3), _IBM_EXTENSIONS, b"\x8f")
for _column, _row in _NEC_ROW_13.items():
    CHANGED["eucjpms"] |= _euc_rows((0xAD, _column), _row)

BINARY = "binary"
"""The character set of columns that hold bytes, not text."""

BINARY_COLLATION = 63

Errors = Literal["strict", "replace"]


def _ids(ranges: str) -> Iterator[int]:
    """Yield the ids of `"1,84,2048-2050"`."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


_NO_PAD = range(1024, 2048)
_CHARSETS = {id_: name for name, ranges in COLLATIONS.items() for id_ in _ids(ranges)}


def charset_of(collation_id: int) -> str:
    """Return the character set of a collation: `utf8mb4` for 255, `binary` for 63.

    Raises:
        UnsupportedError: No known server has such a collation.
    """
    base = collation_id - _NO_PAD.start if collation_id in _NO_PAD else collation_id
    if base not in _CHARSETS:
        raise UnsupportedError(
            "a collation of no known server: convert the column to another one",
            collation_id=collation_id,
        )
    return _CHARSETS[base]


def encode_ascii(text: str, charset: str) -> bytes:
    """Return a text of ASCII letters, digits and commas in the set, or in `binary`."""
    return text.encode(UNICODE[charset][0] if charset in UNICODE else "ascii")


@cache
def single_byte_table(charset: str) -> list[str] | None:
    """Return the character of each of the 256 bytes; None for sets that are not single-byte."""
    if charset not in SINGLE_BYTE:
        return None
    codec, changed = SINGLE_BYTE[charset]
    table = [_decode_code(bytes((byte,)), codec) or "?" for byte in range(256)]
    for first, characters in changed.items():
        table[first : first + len(characters)] = characters
    return table


def decode_text(data: bytes | memoryview, charset: str, errors: Errors = "strict") -> str:
    """Return a value's text; under "replace", U+FFFD stands for every ill-formed sequence.

    Raises:
        FormatError: The value is ill-formed, which no server lets into a column; only "strict".
        UnsupportedError: The set is not one of MySQL's or MariaDB's, or it is `binary`.
    """
    table = _charmap(charset)
    if table is not None:
        return codecs.charmap_decode(data, "strict", table)[0]
    try:
        if charset in UNICODE:
            return str(data, UNICODE[charset][0], errors)
        if charset not in MULTI_BYTE:
            raise UnsupportedError("not a character set of text", charset=charset)
        codec, data = MULTI_BYTE[charset][0], bytes(data)
        if not any(code in data for code in _misleading(charset)):
            return str(data, codec, "strict")
    except UnicodeDecodeError as error:
        if charset in UNICODE:
            raise _ill_formed(charset) from error
    return _decode_by_character(bytes(data), charset, errors)


def decode_identifier(name: bytes | memoryview) -> str:
    """Return a name that the server logged: UTF-8, whatever the character sets of the values.

    Raises:
        FormatError: The name is not UTF-8.
    """
    try:
        return str(name, "utf-8")
    except UnicodeDecodeError as error:
        raise FormatError("a name that is not UTF-8", name=bytes(name).hex()) from error


@cache
def _charmap(charset: str) -> str | None:
    table = single_byte_table(charset)
    return None if table is None else "".join(table)


@cache
def _misleading(charset: str) -> list[bytes]:
    """Return the codes that Python's codec decodes, and the servers otherwise."""
    codec = MULTI_BYTE[charset][0]
    return [code for code in CHANGED.get(charset, {}) if _decode_code(code, codec) is not None]


def _decode_code(code: bytes, codec: str) -> str | None:
    try:
        return code.decode(codec)
    except UnicodeDecodeError:
        return None


@cache
def _characters(charset: str) -> re.Pattern[bytes]:
    """Split a value: runs of ASCII, one longer character, or one byte that belongs to none."""
    pattern = f"([\\x00-\\x7F]+)|({MULTI_BYTE[charset][1]})|(.)"
    return re.compile(pattern.encode("ascii"), re.DOTALL)


@cache
def _characters_by_code(charset: str) -> dict[bytes, str]:
    """Characters met so far, by code: filled as they come."""
    return dict(CHANGED.get(charset, {}))


def _decode_by_character(data: bytes, charset: str, errors: Errors) -> str:
    """Decode what Python's codec refuses or reads otherwise."""
    codec, characters, text = MULTI_BYTE[charset][0], _characters_by_code(charset), []
    for match in _characters(charset).finditer(data):
        code = match[0]
        if match.lastindex == 1:
            text.append(code.decode("ascii"))
        elif match.lastindex == 2:
            if code not in characters:
                characters[code] = _decode_code(code, codec) or "?"
            text.append(characters[code])
        elif errors == "strict":
            raise _ill_formed(charset)
        else:
            text.append("\ufffd")
    return "".join(text)


def _ill_formed(charset: str) -> FormatError:
    # Errors are logged and staged, and their columns may be excluded or hashed: no value is shown.
    return FormatError("a value is ill-formed in its character set", charset=charset)
