"""What a replica sends: registration, the request for the log, the session before it.

Each command is the payload of one packet, its command byte first.

    COM_REGISTER_SLAVE    | 15 | 4 server id | 1 + host | 1 + user | 1 + password | 2 port | 8 |
    COM_BINLOG_DUMP       | 12 | 4 position | 2 flags | 4 server id | file |
    COM_BINLOG_DUMP_GTID  | 1e | 2 flags | 4 server id | 4 + file | 8 position | 4 + GTID set |

Source: mysql-server, sql/rpl_source.cc, register_replica, com_binlog_dump, com_binlog_dump_gtid;
mariadb, sql/sql_repl.cc and sql/slave.cc.
"""

from __future__ import annotations

import hashlib
import secrets
import struct
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import UnsupportedError
from airflow_provider_binlog.position import FIRST_OFFSET, Flavor

if TYPE_CHECKING:
    from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition

NON_BLOCK = 0x0001
"""Dump flag: the server ends the stream at the end of its log, and does not wait for more."""

HEARTBEAT_V2 = 0x0002
"""Dump flag of MySQL: heartbeats carry the whole position."""

SEND_ANNOTATE_ROWS = 0x0002
"""Dump flag of MariaDB: ANNOTATE_ROWS is sent as well. Without it offsets cannot be counted."""

_NET_WRITE_TIMEOUT_SECONDS = 3600
"""How long the server waits for a reader that does not read."""

_COM_BINLOG_DUMP = 0x12
_COM_REGISTER_SLAVE = 0x15
_COM_BINLOG_DUMP_GTID = 0x1E


# A real replica's server id is small, or made of its address; the upper half is ours.
_SERVER_ID_FIRST = 1 << 31
_SERVER_ID_COUNT = (1 << 31) - 1

MAX_SERVER_ID = (1 << 32) - 1
"""The highest that a server takes."""

_DERIVED_COUNT = 1 << 30


def new_server_id() -> int:
    """Return a server id that no replica is likely to have."""
    return _SERVER_ID_FIRST + secrets.randbelow(_SERVER_ID_COUNT)


def derived_server_id(seed: str) -> int:
    """Return a server id that no replica is likely to have, with many free ones after it."""
    digest = hashlib.sha256(seed.encode()).digest()
    return _SERVER_ID_FIRST + int.from_bytes(digest[:8], "big") % _DERIVED_COUNT


def dump_flags(flavor: Flavor) -> int:
    """Return the flags of the dump commands: every log event, to the end of the log."""
    return NON_BLOCK | (HEARTBEAT_V2 if flavor is Flavor.MYSQL else SEND_ANNOTATE_ROWS)


def register_slave(server_id: int, *, host: str) -> bytes:
    """Return COM_REGISTER_SLAVE: it makes the reader visible in SHOW REPLICAS, no more."""
    name = host.encode()[:255]
    return struct.pack("<BIB", _COM_REGISTER_SLAVE, server_id, len(name)) + name + bytes(12)


def binlog_dump(file: str, offset: int, *, server_id: int, flags: int) -> bytes:
    """Return COM_BINLOG_DUMP: the log from a position on; the empty file is the first one.

    Raises:
        UnsupportedError: The offset is after 4 GiB, which this command cannot express.
    """
    if offset >= 1 << 32:
        raise UnsupportedError(
            "a position after 4 GiB: start by GTID, or at a file's beginning",
            file=file,
            offset=offset,
        )
    return struct.pack("<BIHI", _COM_BINLOG_DUMP, offset, flags, server_id) + file.encode()


def binlog_dump_gtid(
    executed: GtidSet,
    *,
    server_id: int,
    flags: int,
    file: str = "",
    offset: int = FIRST_OFFSET,
) -> bytes:
    """Return COM_BINLOG_DUMP_GTID: what is not in `executed`. MySQL with `gtid_mode=ON` only.

    Without a file the server chooses it, and refuses if it has purged what is asked for. With a
    file it does not check that; with an empty set, this reaches offsets after 4 GiB.
    The set is written with tags only where it has some: servers before 8.3 read no others.
    """
    name, gtids = file.encode(), executed.encode()
    return (
        struct.pack("<BHII", _COM_BINLOG_DUMP_GTID, flags, server_id, len(name))
        + name
        + struct.pack("<QI", offset, len(gtids))
        + gtids
    )


def session_statements(
    flavor: Flavor,
    *,
    heartbeat_seconds: float,
    connect_state: MariadbGtidPosition | None = None,
) -> list[str]:
    """Return the statements that prepare a session for one of the dump commands.

    Args:
        flavor: Of the server.
        heartbeat_seconds: After so much silence the server sends a heartbeat; 0 for never.
        connect_state: MariaDB only: start after this GTID position, whatever the dump command
            says. A domain left out is sent from its beginning.
    """
    period = int(heartbeat_seconds * 1_000_000_000)
    # The source_ names are for MySQL from 8.0.26 on, the master_ names for all others; a
    # user variable that a server does not look at is harmless.
    statements = [
        "SET @source_binlog_checksum = @@global.binlog_checksum",
        "SET @master_binlog_checksum = @@global.binlog_checksum",
        f"SET @source_heartbeat_period = {period}, @master_heartbeat_period = {period}",
        f"SET SESSION net_write_timeout = {_NET_WRITE_TIMEOUT_SECONDS}",
    ]
    if flavor is Flavor.MARIADB:
        # Below 4 the server rewrites GTID events into something else.
        statements.append("SET @mariadb_slave_capability = 4")
        if connect_state is not None:
            statements.append(f"SET @slave_connect_state = '{connect_state}'")
            statements.append("SET @slave_gtid_strict_mode = 1")
    return statements
