"""Character sets: every code of every set decodes to what the server itself converts it to."""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.binlog.charsets import (
    BINARY,
    BYTES_PER_CHARACTER,
    charset_of,
    decode_text,
)
from airflow_provider_binlog.errors import FormatError
from tests.fixtures.mysql import Database, query

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.services.servers import Server

_ROWS_PER_INSERT = 20_000

_EUC = range(0xA1, 0xFF)

# MySQL 9.7 takes an eucjpms value that ends inside a character, and 8EA0 in ujis, for well-formed;
# CONVERT then drops the rest or puts two question marks. MariaDB refuses both, as we do.
_HALF_WIDTH_SPACE = b"\x8e\xa0"

# Both take half a surrogate pair for a character of utf32, and MariaDB of ucs2. No valid UTF-8
# stands for it.
_SURROGATES = {bytes((first,)) for first in range(0xD8, 0xE0)}


def codes() -> Iterator[bytes]:
    """Every code of one and two bytes, of the EUC sets' third plane, many of four bytes."""
    yield from (bytes((first,)) for first in range(256))
    yield from map(bytes, product(range(256), repeat=2))
    yield from (bytes((0x8F, row, column)) for row, column in product(_EUC, _EUC))
    digits, leads = range(0x30, 0x3A), range(0x81, 0xFF)
    # All of the basic plane's, and some after every other lead byte.
    for first in leads:
        thirds = leads if first <= 0x84 else leads[:1]
        yield from map(bytes, product((first,), digits, thirds, digits))
    yield from map(bytes, product((0,), range(0x12), range(256), (0x00, 0x41, 0xFF)))


def sizes(charset: str) -> tuple[int, ...]:
    """Return how long the codes are that may be characters, or pairs of them."""
    if BYTES_PER_CHARACTER[charset] == 1:
        return (1,)
    return (1, 2, {"ujis": 3, "eucjpms": 3, "gb18030": 4, "utf32": 4}.get(charset, 2))


def comparable(charset: str, code: bytes) -> bool:
    """Whether both sides know the code for well-formed or not, for the reasons above."""
    if charset == "eucjpms":
        try:
            decode_text(code, charset)
        except FormatError:
            return False
    if charset in {"ucs2", "utf32"} and code[-2:-1] in _SURROGATES and not any(code[:-2]):
        return False
    return not (charset == "ujis" and code == _HALF_WIDTH_SPACE)


def insert_codes(database: Database) -> None:
    """Fill the table `codes`."""
    literals = [f"(x'{code.hex()}')" for code in codes()]
    database.execute("CREATE TABLE codes (code varbinary(4) PRIMARY KEY)")
    for first in range(0, len(literals), _ROWS_PER_INSERT):
        rows = ",".join(literals[first : first + _ROWS_PER_INSERT])
        database.execute(f"INSERT INTO codes VALUES {rows}")


def decoded(code: bytes, charset: str) -> bytes:
    """Return what we make of a code, in UTF-8."""
    return decode_text(code, charset, errors="replace").encode()


@pytest.mark.parametrize("name", ["mysql97", "mariadb1011"])
def test_every_code_decodes_as_the_server_converts_it(
    name: str, request: pytest.FixtureRequest, create_database: Callable[[Server], Database]
) -> None:
    database = create_database(request.getfixturevalue(name))
    insert_codes(database)
    differing: dict[str, list[tuple[str, str, str]]] = {}

    for charset, *_ in database.query("SHOW CHARACTER SET"):
        if charset == BINARY:
            continue
        # A code that changes on its way into the set is none that a column can hold.
        converted = database.query(
            f"SELECT code, HEX(CONVERT(CONVERT(code USING {charset}) USING utf8mb4)) text"
            " FROM codes"
            f" WHERE HEX(CONVERT(code USING {charset})) = HEX(code) AND LENGTH(code) IN %s"
            " HAVING text IS NOT NULL",
            sizes(charset),
        )
        wrong = [
            (code.hex(), text, decode_text(code, charset, errors="replace"))
            for code, text in converted
            if comparable(charset, code) and decoded(code, charset) != bytes.fromhex(text)
        ]
        if wrong:
            differing[charset] = wrong[:5]
        assert len(converted) >= 128

    assert not differing


@pytest.mark.parametrize("name", ["mysql97", "mariadb1011", "mariadb118"])
def test_every_collation_has_its_character_set(name: str, request: pytest.FixtureRequest) -> None:
    server = request.getfixturevalue(name)
    id_source = "collations" if name == "mysql97" else "collation_character_set_applicability"

    collations = query(
        server,
        f"SELECT id, character_set_name FROM information_schema.{id_source} WHERE id IS NOT NULL",
    )

    assert len(collations) > 200
    assert [(i, charset_of(i)) for i, _ in collations] == collations


def test_the_longest_character_of_every_set(mysql97: Server) -> None:
    sets = query(mysql97, "SHOW CHARACTER SET")

    assert {row[0]: BYTES_PER_CHARACTER[row[0]] for row in sets} == {row[0]: row[3] for row in sets}
