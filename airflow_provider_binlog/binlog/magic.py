"""The four bytes that every binlog file begins with.

Source: mysql-server, sql/log_event.h, BINLOG_MAGIC; sql/rpl_log_encryption.h.
"""

from __future__ import annotations

from airflow_provider_binlog.errors import FormatError, TruncatedError, UnsupportedError

MAGIC = b"\xfebin"
"""The first four bytes of a binlog file."""

ENCRYPTED_MAGIC = b"\xfdbin"
"""The first four bytes of a file that MySQL encrypted."""


def check_magic(data: bytes | memoryview) -> None:
    """Raise if a binlog file cannot begin with these bytes, or is encrypted.

    Raises:
        TruncatedError: Fewer than four bytes.
        UnsupportedError: The file is encrypted.
        FormatError: The file is no binlog.
    """
    first = bytes(data[: len(MAGIC)])
    if len(first) < len(MAGIC):
        raise TruncatedError("a binlog file has at least four bytes", size=len(first))
    if first == ENCRYPTED_MAGIC:
        raise UnsupportedError(
            "the file is encrypted: read it from the server, which sends it in clear"
        )
    if first != MAGIC:
        raise FormatError("not a binlog file", first_bytes=first.hex())
