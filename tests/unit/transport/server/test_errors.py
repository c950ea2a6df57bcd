"""Every refusal known of a server becomes the error that says what to do."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import pymysql
import pytest

from airflow_provider_binlog.errors import (
    AccessDeniedError,
    BinlogError,
    ConnectionLostError,
    ForeignPositionError,
    FormatError,
    IdentityClashError,
    PositionPurgedError,
    ServerSetupError,
    SourceError,
    TruncatedError,
)
from airflow_provider_binlog.transport.server.driver import translate
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply

# Texts of mysql-server, sql/rpl_binlog_sender.cc and share/messages_to_clients.txt, and of
# mariadb, sql/sql_repl.cc; several are as received from 8.0, 9.7, 10.11 and 11.8.
SAID = [
    ("Could not find first log file name in binary log index file", PositionPurgedError),
    (
        (
            "Cannot replicate because the source purged required binary logs. Replicate the missing"
            " transactions from elsewhere, or provision a new replica from backup."
        ),
        PositionPurgedError,
    ),
    (
        (
            "Could not find GTID state requested by slave in any binlog files. Probably the slave"
            " state is too old and required binlog files have been purged."
        ),
        PositionPurgedError,
    ),
    ("could not find next log; the first event 'binlog.000001' at 4", PositionPurgedError),
    (
        "Client requested source to start replication from position > file size",
        ForeignPositionError,
    ),
    (
        "Client requested master to start replication from impossible position",
        ForeignPositionError,
    ),
    ("Client requested source to start replication from position < 4", ForeignPositionError),
    (
        (
            "Replica has more GTIDs than the source has, using the source's SERVER_UUID."
            " This may indicate that the end of the binary log was truncated"
        ),
        ForeignPositionError,
    ),
    (
        (
            "Error: connecting slave requested to start from GTID 0-1-99, which is not in the"
            " master's binlog"
        ),
        ForeignPositionError,
    ),
    (
        (
            "The binlog on the master is missing the GTID 0-1-5 requested by the slave (even though"
            " both a prior and a subsequent sequence number does exist)"
        ),
        ForeignPositionError,
    ),
    (
        "A replica with the same server_uuid/server_id as this replica has connected to the source",
        IdentityClashError,
    ),
    (
        (
            "The replication sender thread cannot start in AUTO_POSITION mode: this server has"
            " GTID_MODE = OFF instead of ON."
        ),
        ServerSetupError,
    ),
    (
        "Cannot replicate anonymous transaction when AUTO_POSITION = 1, at file ./binlog.000003",
        ServerSetupError,
    ),
    (
        "Cannot replicate anonymous transaction when @@GLOBAL.GTID_MODE = ON, at file ./b.000003",
        ServerSetupError,
    ),
    (
        "Cannot replicate GTID-transaction when @@GLOBAL.GTID_MODE = OFF, at file ./b.000003",
        ServerSetupError,
    ),
    (
        (
            "Replica can not handle replication events with the checksum that source is configured"
            " to log; the first event 'binlog.000001' at 4"
        ),
        ServerSetupError,
    ),
    (
        "log event entry exceeded max_allowed_packet; Increase max_allowed_packet on source",
        ServerSetupError,
    ),
    ("Binary log is not open", ServerSetupError),
    ("Misconfigured source - source server_id is 0", ServerSetupError),
    ("Misconfigured master - server id was not set", ServerSetupError),
    ("Could not decrypt binlog: encryption key error", ServerSetupError),
    (
        "binlog truncated in the middle of event; consider out of disk space on source",
        TruncatedError,
    ),
    (
        "bogus data in log event; the first event 'binlog.000001' at 5, the last event read",
        FormatError,
    ),
    ("event read from binlog did not pass crc check; the first event 'b.1' at 4", FormatError),
    ("memory allocation failed reading log event", ConnectionLostError),
    ("something new", SourceError),
]


@pytest.mark.parametrize(("text", "kind"), SAID)
def test_a_refused_dump(text: str, kind: type[BinlogError]) -> None:
    error = from_reply(1236, text, file="binlog.000001", offset=4)

    assert type(error) is kind
    assert error.context["file"] == "binlog.000001"
    assert error.context["server_says"] == text
    assert str(error.args[0]) != text


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1045, AccessDeniedError),
        (1227, AccessDeniedError),
        (1773, ForeignPositionError),
        (1941, ForeignPositionError),
        (4052, IdentityClashError),
        (2013, ConnectionLostError),
        (1053, ConnectionLostError),
        (1927, ConnectionLostError),
        (1835, SourceError),
    ],
)
def test_other_codes(code: int, kind: type[BinlogError]) -> None:
    assert type(from_reply(code, "as the server says")) is kind


def test_what_may_be_tried_again() -> None:
    again = {kind for text, kind in SAID if from_reply(1236, text).retryable}

    assert again == {IdentityClashError, ConnectionLostError}


def test_the_errors_travel_between_processes() -> None:
    error = from_reply(1236, "bogus data in log event", offset=4)

    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize("read", [lambda text: from_reply(1236, text), lambda text: text])
def test_the_servers_text_is_one_short_line_without_escapes(
    read: Callable[[str], object],
) -> None:
    text = "no log\x1b[2J\r\n2026-11-23 INFO all is well\u202e" + "x" * 100_000
    _, shown = parse_reply(b"\xff\xd4\x04#HY000" + text.encode())
    error = str(read(shown))

    assert "no log" in error
    assert error.isprintable()
    assert len(error) < 1500
    assert str(translate(pymysql.OperationalError(1105, text))).isprintable()


def test_parse_reply() -> None:
    assert parse_reply(b"\xff\xd4\x04#HY000no log") == (1236, "no log")
    assert parse_reply(b"\xff\xd4\x04no state") == (1236, "no state")
