"""Text in every character set that a server has, of the characters that the set has."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

from tests.fixtures.mysql import connect

if TYPE_CHECKING:
    from random import Random

    from tests.services.servers import Server

Repertoires = dict[str, str]
"""By character set, its characters in Unicode's order; none of `binary`."""

_ALPHABETS = (
    "abc XYZ 09",
    "é ß ñ ü ¿",
    "Ωμέγα Привіт",
    "日本語 中文 한국어 ไทย",
    "😀🎉",
    "'\"\\\n\t\0\x1f%_ ",
)
_ASKED = "".join(chr(point) for point in range(0x10000) if not 0xD800 <= point < 0xE000) + "😀𠮷🎉"
_known: dict[str, Repertoires] = {}


def repertoires(server: Server) -> Repertoires:
    """Query a server for the characters that each of its sets returns unchanged."""
    if server.name not in _known:
        with closing(connect(server)) as connection, connection.cursor() as cursor:
            cursor.execute("SHOW CHARACTER SET")
            names = sorted(row[0] for row in cursor.fetchall())
            found = {}
            for name in names:
                cursor.execute(
                    f"SELECT HEX(CONVERT(CONVERT({quoted(_ASKED)} USING {name}) USING utf8mb4))"
                )
                back = bytes.fromhex(cursor.fetchone()[0]).decode()
                pairs = zip(_ASKED, back, strict=True)
                found[name] = "".join(asked for asked, got in pairs if asked == got)
        _known[server.name] = found | {"binary": ""}
    return _known[server.name]


def text(random: Random, most: int, repertoire: str = "") -> str:
    """Return up to `most` characters: of some of the world's alphabets, or of a repertoire."""
    alphabet = "".join(random.sample(_ALPHABETS, random.randint(1, 3)))
    # Characters that a set lacks, the server stores as question marks.
    if repertoire and random.random() < 0.8:
        begin, size = random.randrange(len(repertoire)), random.choice([1, 60, 4000])
        alphabet = repertoire[begin : begin + size] + "a Z0"
    return "".join(random.choices(alphabet, k=random.choice([0, 1, most // 2, most])))


def letter(random: Random, repertoire: str) -> str:
    """Return a letter or digit of a repertoire."""
    while True:
        chosen = random.choice(repertoire or "x")
        if chosen.isalnum():
            return chosen


def quoted(value: str) -> str:
    """Return a text as an SQL literal, whatever it holds and whatever a backslash means."""
    return f"CONVERT(x'{value.encode().hex()}' USING utf8mb4)"
