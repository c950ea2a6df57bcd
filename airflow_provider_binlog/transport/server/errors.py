"""Translate the errors of a server into ours, with what to do about each.

Most refusals of a dump share the code 1236: the patterns take the texts of all versions.

Source: mysql-server, sql/rpl_binlog_sender.cc, share/messages_to_clients.txt; mariadb,
sql/sql_repl.cc, sql/share/errmsg-utf8.txt.
"""

from __future__ import annotations

import re

import pymysql

from airflow_provider_binlog import errors
from airflow_provider_binlog.transport.server.driver import LOG_IS_OFF, clean_text, translate

Translated = errors.SourceError | errors.FormatError

_CANNOT_SEND_LOG = 1236

_SNAPSHOT = "take a new snapshot of the tables and start from there"
_OTHER_LOG = "it was issued by another server, or the log was reset since"

_REFUSALS: dict[type[Translated], dict[str, str]] = {
    errors.PositionPurgedError: {
        r"could not find first log file name": (
            f"the server does not have this binlog file (any more): {_SNAPSHOT}"
        ),
        r"purged required binary logs|GTID state requested by slave.*too old": (
            f"the server has purged the transactions that come next: {_SNAPSHOT}"
        ),
        r"could not find next log|could not open log|could not open .*index": (
            "the server lost its binlog files while they were read: were they purged or reset?"
        ),
    },
    errors.ForeignPositionError: {
        r"position > file size|impossible position|position < 4": (
            f"the position is outside the server's binlog file: {_OTHER_LOG}"
        ),
        r"more GTIDs than the (source|master) has": (
            f"the GTID set holds transactions that the server does not know: {_OTHER_LOG}"
        ),
        r"requested to start from GTID|missing the GTID|GTID .* is not in the master": (
            f"the server's log does not hold the GTID to start after: {_OTHER_LOG}"
        ),
    },
    errors.ConnectionLostError: {
        r"memory allocation failed|out of memory": (
            "the server had no memory for an event of its log"
        ),
    },
    errors.IdentityClashError: {
        r"same server_uuid|same server_id|same server id": (
            "another replica connected with our server id or uuid, so the server ended this stream"
        ),
    },
    errors.ServerSetupError: {
        r"AUTO_POSITION mode.*GTID_MODE": (
            "starting by GTID needs gtid_mode=ON: set it, or start at a file and an offset"
        ),
        r"anonymous transaction": (
            "the log holds transactions without a GTID, which are not sent while gtid_mode=ON: "
            "set it to ON_PERMISSIVE until they are read, or take a new snapshot"
        ),
        r"GTID.transaction when": (
            "the log holds transactions with a GTID, which are not sent while gtid_mode=OFF: "
            "set it to OFF_PERMISSIVE until they are read, or take a new snapshot"
        ),
        r"checksum.*configured to log|handle replication events with the checksum": (
            "the server took us for a replica without checksums: does a proxy drop SET statements?"
        ),
        r"max_allowed_packet": (
            "an event is larger than the server may send: set its max_allowed_packet to 1073741824,"
            " or restore the file if it has that already: then the file is damaged"
        ),
        r"binary log is not open": LOG_IS_OFF,
        r"misconfigured (master|source)|server_id (was not set|is 0)": (
            "the server has server_id=0: set a positive one"
        ),
        r"could not decrypt|encryption key": (
            "the server cannot decrypt its log: restore its encryption keys"
        ),
    },
    errors.TruncatedError: {
        r"truncated in the middle of event": (
            "the server's binlog file ends inside an event: its disk was full, or it crashed"
        ),
    },
    errors.FormatError: {
        r"bogus data in log event|crc check|checksum|corrupt|error reading the header": (
            "the server cannot read its own log: no event begins there, or the file is damaged"
        ),
    },
}
"""By our error: patterns in the server's text, and what each means and what to change."""

_CODES: dict[int, tuple[type[Translated], str]] = {
    29: (errors.PositionPurgedError, "a file was removed from the server's disk; put it back"),
    1772: (errors.ForeignPositionError, "the server does not understand the GTID set"),
    1773: (errors.ForeignPositionError, "the server does not understand the GTID set"),
    1941: (errors.ForeignPositionError, "the server does not understand the list of GTIDs"),
    1943: (errors.ForeignPositionError, "the list of GTIDs names a domain twice"),
    1945: (errors.ForeignPositionError, "the server's log does not hold the GTID to start after"),
    1951: (errors.ForeignPositionError, "the server's log does not hold the GTID to start after"),
    1955: (errors.ForeignPositionError, "the server's log does not hold the GTID to start after"),
    4052: (errors.IdentityClashError, "another replica connected with our server id"),
}


def from_reply(code: int, text: str, **context: object) -> Translated:
    """Return the error that a server's error code and text mean, with the server's own words.

    `context` says where: `file`, `offset`.
    """
    if code == _CANNOT_SEND_LOG:
        for kind, meanings in _REFUSALS.items():
            for pattern, meaning in meanings.items():
                if re.search(pattern, text, re.IGNORECASE | re.DOTALL):
                    return kind(meaning, **context, code=code, server_says=text)
        return errors.SourceError(
            "the server cannot send its log", **context, code=code, server_says=text
        )
    if code in _CODES:
        kind, meaning = _CODES[code]
        return kind(meaning, **context, code=code, server_says=text)
    return translate(pymysql.OperationalError(code, text), **context)


def parse_reply(reply: bytes) -> tuple[int, str]:
    """Return the code and the text of an ERR packet: `ff | u16 code | # and 5 SQL state | text`."""
    text = reply[3:].decode(errors="replace")
    text = text[6:] if text.startswith("#") else text
    return int.from_bytes(reply[1:3], "little"), clean_text(text)
