"""Names of databases, tables and sources; capture and the merge write the same folders."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from urllib.parse import quote

from airflow_provider_binlog.errors import ConfigurationError

SYSTEM_DATABASES = frozenset({"mysql", "information_schema", "performance_schema", "sys"})
"""The server's own databases."""

_NAME_BYTES_MAX = 200
"""A folder's name may have 255 bytes on most file systems, an S3 key 1024 in all. 64 characters of
Chinese, which MySQL allows, take 576 when encoded."""

_QUOTED = frozenset(".`")
_WILDCARDS = frozenset("*?[")

_HASH_SEPARATOR = "~"
_HASH_DIGITS = 32


def encode_name(name: str) -> str:
    """Return `name` as one segment of a key: ASCII, at most 200 bytes, different for every name.

    ASCII letters, digits, `.`, `-` and `_` are kept, but not a dot or underscore in first place. A
    longer name is truncated, and ends in `~` and a hash of the whole name.

    Raises:
        ConfigurationError: The name is empty.
    """
    if not name:
        raise ConfigurationError("a database, table or source needs a name")
    encoded = quote(name, safe="").replace("~", "%7E")
    if encoded[0] in "._":
        encoded = escape_first(encoded)
    if len(encoded) <= _NAME_BYTES_MAX:
        return encoded
    digest = hashlib.sha256(name.encode()).hexdigest()[:_HASH_DIGITS]
    start = encoded[: _NAME_BYTES_MAX - len(_HASH_SEPARATOR) - _HASH_DIGITS]
    return re.sub("%.?$", "", start) + _HASH_SEPARATOR + digest


def fold_name(name: str) -> str:
    """Return what names of columns that the server takes for the same have in common.

    It is Unicode's simple case folding, character by character, as of MariaDB 11: `str.lower` would
    depend on what follows a sigma, and `str.casefold` takes ß for ss. MySQL and MariaDB 10 fold
    fewer characters, and take a capital I with a dot for an I.

    Source: mysql-server, strings/ctype-utf8.cc, my_unicase_default.
    """
    return name.lower() if name.isascii() else "".join(map(_fold, name))


def _fold(character: str) -> str:
    folded = "i" if character == "\u0130" else character.casefold()
    return folded if len(folded) == 1 else character


def quote_identifier(name: str) -> str:
    """Return a name as SQL takes any: between backticks."""
    return "`" + name.replace("`", "``") + "`"


def join_table_name(name: tuple[str, str]) -> str:
    """Return `database.table`; a database whose name has a dot or backtick is between backticks."""
    database, table = name
    return f"{quote_identifier(database) if _QUOTED & {*database} else database}.{table}"


def split_table_name(text: str) -> tuple[str, str]:
    """Return database and table of what `join_table_name` returned; empty where it has none."""
    quoted = re.match(r"`((?:[^`]|``)*)`\.", text)
    if quoted is not None:
        return quoted[1].replace("``", "`"), text[quoted.end() :]
    database, _, table = text.partition(".")
    return database, table


def read_table_name(value: object) -> tuple[str, str]:
    """Return database and table of a name that a person wrote.

    Raises:
        ConfigurationError: It is no name of one table.
    """
    database, table = split_table_name(value) if isinstance(value, str) else ("", "")
    if not database or not table:
        raise ConfigurationError(
            "table is the name of one table, such as shop.orders, or `my.shop`.orders", given=value
        )
    return database, table


def matches_globs(name: str, include: Iterable[str], exclude: Iterable[str] = ()) -> bool:
    """Return whether a glob to include matches a name, and none to exclude does; case counts."""
    return any(fnmatchcase(name, glob) for glob in include) and not any(
        fnmatchcase(name, glob) for glob in exclude
    )


def is_captured(name: tuple[str, str], include: Iterable[str], exclude: Iterable[str]) -> bool:
    """Return whether globs capture a table: of the server's own databases only what they name."""
    if name[0] in SYSTEM_DATABASES:
        include = [glob for glob in include if glob.startswith(f"{name[0]}.")]
    return matches_globs(".".join(name), include, exclude)


class GlobMatcher:
    """Globs that many names are compared with: those without a wildcard cost nothing each."""

    def __init__(self, globs: Iterable[str]) -> None:
        every = frozenset(globs)
        self._exact = frozenset(filter(is_exact_glob, every))
        self._patterns = every - self._exact

    def __call__(self, name: str) -> bool:
        """Return whether a glob matches a name; case counts."""
        return name in self._exact or matches_globs(name, self._patterns)


def find_unmatched(globs: Iterable[str], names: Iterable[str]) -> list[str]:
    """Return the globs that match none of these names."""
    known = frozenset(names)
    return [
        glob
        for glob in globs
        if not (
            glob in known if is_exact_glob(glob) else any(fnmatchcase(name, glob) for name in known)
        )
    ]


def is_exact_glob(glob: str) -> bool:
    """Return whether a glob has no wildcard: it matches the name that it is."""
    return _WILDCARDS.isdisjoint(glob)


def escape_first(encoded: str) -> str:
    """Return an encoded name with its first character percent-encoded."""
    return f"%{ord(encoded[0]):02X}{encoded[1:]}"
