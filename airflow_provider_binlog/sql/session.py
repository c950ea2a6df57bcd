"""The settings of a session that decide what its statements mean.

Source: mysql-server, sql/system_variables.h; mariadb, sql/sql_class.h, MODE_...
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from airflow_provider_binlog.position import Flavor

REAL_AS_FLOAT = 1 << 0
ANSI_QUOTES = 1 << 2
ORACLE = 1 << 9
NO_AUTO_VALUE_ON_ZERO = 1 << 19
NO_BACKSLASH_ESCAPES = 1 << 20
STRICT_TRANS_TABLES = 1 << 21
STRICT_ALL_TABLES = 1 << 22
PAD_CHAR_TO_FULL_LENGTH = 1 << 31
EMPTY_STRING_IS_NULL = 1 << 32
"""Of MariaDB; another mode of MySQL has the same bit."""

_STRICT = STRICT_TRANS_TABLES | STRICT_ALL_TABLES


@dataclass(frozen=True, slots=True)
class Session:
    """A server's flavor, and what the log says of the session that ran a statement.

    Attributes:
        flavor: Of the server.
        database: The default database.
        sql_mode: As bits; None where the log does not say.
        explicit_timestamps: `explicit_defaults_for_timestamp`; None where the log does not say.
        connection_charset: Of string literals; None where the log does not say.
        client_charset: Of the statement's text; None where the log does not say.
        seconds: When the statement started, since 1970; None where that is not known.
        microseconds: What is to be added; None where the log does not say.
        time_zone: Its name, or an offset; None where the log does not say.
    """

    flavor: Flavor
    database: str = ""
    sql_mode: int | None = None
    explicit_timestamps: bool | None = None
    connection_charset: str | None = None
    client_charset: str | None = None
    seconds: int | None = None
    microseconds: int | None = None
    time_zone: str | None = None

    def has(self, mode: int) -> bool | None:
        """Whether `sql_mode` has a bit; None where it is not known."""
        return None if self.sql_mode is None else bool(self.sql_mode & mode)

    @property
    def is_strict(self) -> bool:
        """Whether a statement fails rather than change a value so that it fits."""
        return bool(self.has(_STRICT))
