"""The decoders under test. Each takes any bytes, and gives a value or an error of our tree."""

from __future__ import annotations

import json
import pickle
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from random import Random
from typing import Any

from airflow_provider_binlog import stored_json
from airflow_provider_binlog.binlog.column_types import mysql_type
from airflow_provider_binlog.binlog.events import control as control_events
from airflow_provider_binlog.binlog.events import gtid as gtid_events
from airflow_provider_binlog.binlog.events import statements as statement
from airflow_provider_binlog.binlog.events.control import FormatDescription
from airflow_provider_binlog.binlog.events.table_map import TableMap
from airflow_provider_binlog.binlog.gtid_set import GtidSet, MariadbGtidPosition
from airflow_provider_binlog.binlog.header import ROWS, EventHeader, EventType
from airflow_provider_binlog.checkpoint import Checkpoint, advance, load
from airflow_provider_binlog.errors import MALFORMED, BinlogError
from airflow_provider_binlog.manifest import Manifest
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity, split_file_name
from airflow_provider_binlog.sql.columns import parse_type
from airflow_provider_binlog.sql.lexer import ANSI_QUOTES, NO_BACKSLASH_ESCAPES, Session
from airflow_provider_binlog.sql.statement_types import classify, xid_of
from airflow_provider_binlog.staging.manifest_log import FORMAT as SCHEMA_FILE
from airflow_provider_binlog.staging.manifest_log import SchemaFile, files_of
from airflow_provider_binlog.stored_json import digest_of_values
from airflow_provider_binlog.transport.files.names import plain_name
from airflow_provider_binlog.transport.server.errors import from_reply, parse_reply
from tests.fuzz import seeds
from tests.fuzz.mutate import mutate, mutate_json
from tests.reference.rows_header import RowsHeader
from tests.support import builder
from tests.support.stores import Checkpoints
from tests.unit.staging.manifests import manifest

Mutate = Callable[[Random, bytes, Sequence[bytes]], bytes]


@dataclass(frozen=True)
class Target:
    """One decoder.

    Attributes:
        name: Its folder among the crashers.
        run: Decodes an input. A `BinlogError` is an answer; anything else that is raised is a bug.
        seeds: Inputs to begin with.
        mutate: Makes another input of one.
    """

    name: str
    run: Callable[[bytes], object]
    seeds: Callable[[], Sequence[bytes]]
    mutate: Mutate = mutate


_FORMS_MAX = 10_000


class Wrong(Exception):  # noqa: N818 - a finding
    """A decoder gave an answer, and not the right one."""


def execute(target: Target, data: bytes) -> None:
    """Run a target on an input, and return if its answer is of a kind that it promises."""
    try:
        target.run(data)
    except BinlogError as error:
        check_text(error)


_checked: set[tuple[object, ...]] = set()


def check_text(error: BinlogError) -> None:
    """Look at an error as those who get it do: in a log, and from another process.

    Once for each form of it: a message, and the types of its context.
    """
    form = (type(error), error.args[0], *((key, type(v)) for key, v in error.context.items()))
    if form in _checked:
        return
    if len(_checked) < _FORMS_MAX:
        _checked.add(form)
    again = pickle.loads(pickle.dumps(error))
    if str(again) != str(error) or not str(error):
        raise Wrong(f"an error that does not travel: {error!r}")


def shown(outcome: object) -> str:
    """Return an error in full, and of anything else that it is none."""
    return repr(outcome) if isinstance(outcome, BinlogError) else f"a {type(outcome).__name__}"


Parse = Callable[[bytes, FormatDescription], object]


def _in_each_format(parse: Parse) -> Callable[[bytes], object]:
    """Read a body as in the files of every kind of server."""

    def run(data: bytes) -> None:
        for file_format in seeds.formats():
            try:
                parse(data, file_format)
            except BinlogError as error:
                check_text(error)

    return run


def _event(name: str, parse: Parse, *types: EventType, more: Sequence[bytes] = ()) -> Target:
    return Target(name, _in_each_format(parse), lambda: (*seeds.bodies(*types), *more))


def _each_type(types: Sequence[EventType], parse: Callable[..., Any]) -> Parse:
    def run(data: bytes, file_format: FormatDescription) -> None:
        for type_code in types:
            try:
                parse(type_code, data, file_format)
            except BinlogError as error:
                check_text(error)

    return run


def _query(data: bytes, file_format: FormatDescription) -> None:
    query = statement.Query.parse(data, file_format)
    for flavor in Flavor:
        classify(query.sql, query.session(flavor))


def _xa_prepare(data: bytes, _: FormatDescription) -> None:
    statement.XaPrepare.parse(data)


def _gtid(type_code: EventType, data: bytes) -> gtid_events.Gtid:
    return gtid_events.Gtid.parse(EventHeader(0, type_code, 1, 19, 0, 0), data)


def _mysql_gtid(type_code: EventType, data: bytes, _: FormatDescription) -> None:
    gtid = _gtid(type_code, data)
    if gtid.text is not None and str(GtidSet.parse(gtid.text)) != gtid.text:
        raise Wrong(f"a GTID that reads otherwise: {gtid.text}")


def _mariadb_gtid(data: bytes, _: FormatDescription) -> None:
    text = str(_gtid(EventType.MARIADB_GTID, data).text)
    if text not in str(MariadbGtidPosition.parse(text)):
        raise Wrong(f"a GTID that reads otherwise: {text}")


def _table_map(data: bytes, file_format: FormatDescription) -> None:
    from airflow_provider_binlog.rows.layout import compile_layout

    table = TableMap.parse(data, file_format)
    for column in table.columns:
        mysql_type(column)
    for allow_missing_metadata in (False, True):
        try:
            compile_layout(table, allow_missing_metadata=allow_missing_metadata)
        except BinlogError as error:
            check_text(error)


def _gtid_set(data: bytes) -> None:
    found = GtidSet.decode(data)
    if GtidSet.decode(found.encode()) != found or GtidSet.parse(str(found)) != found:
        raise Wrong("a GTID set that does not survive being written")


def _text(data: bytes) -> str:
    return data.decode(errors="replace")


def _gtid_text(data: bytes) -> None:
    found = GtidSet.parse(_text(data))
    if GtidSet.parse(str(found)) != found or GtidSet.decode(found.encode()) != found:
        raise Wrong("a GTID set that does not survive being written")


def _mariadb_gtid_text(data: bytes) -> None:
    found = MariadbGtidPosition.parse(_text(data))
    if MariadbGtidPosition.parse(str(found)) != found:
        raise Wrong("a list of GTIDs that does not survive being written")


def _statement(data: bytes) -> None:
    sql = _text(data)
    xid_of(sql)
    for flavor in Flavor:
        for mode in (0, NO_BACKSLASH_ESCAPES, ANSI_QUOTES, None):
            session = Session(flavor, sql_mode=mode)
            classify(sql, session)


def _sql_type(data: bytes) -> None:
    for escapes in (True, False):
        found = parse_type(_text(data), escapes=escapes)
        if found is not None and not escapes and parse_type(str(found)) != found:
            raise Wrong(f"a type that does not survive being printed: {found}")


def with_digest(data: bytes) -> bytes:
    """Return a document with the digest of what it holds now, or the bytes as they are."""
    try:
        value = json.loads(data)
        return stored_json.encode({name: value[name] for name in value if name != "sha256"})
    except MALFORMED:
        return data


def _manifest(data: bytes) -> None:
    found = Manifest.decode(with_digest(data))
    if Manifest.decode(found.encode()) != found:
        raise Wrong("a manifest that does not survive being written")


def _schema_file(data: bytes) -> None:
    found = SCHEMA_FILE.decode(SchemaFile, with_digest(data))
    if SCHEMA_FILE.decode(SchemaFile, SCHEMA_FILE.encode(found)) != found:
        raise Wrong("a schema file that does not survive being written")


def _checkpoint(data: bytes) -> None:
    text = _text(data)
    with suppress(*MALFORMED):
        value = json.loads(text)
        rest = {name: value[name] for name in value if name != "digest"}
        text = json.dumps(rest | {"digest": digest_of_values(rest)})
    found = Checkpoint.decode(text)
    if Checkpoint.decode(found.encode()) != found or not found.same_position(found):
        raise Wrong("a checkpoint that does not survive being written")
    known = _CHECKPOINT
    for one, other in ((known, found), (found, known)):
        store = Checkpoints()
        advance(store, "key", expected=None, new=one)
        try:
            advance(store, "key", expected=one, new=other)
        except BinlogError as error:
            check_text(error)
            if load(store, "key") != one:
                raise Wrong(f"a checkpoint moved in spite of {error}") from error


def _file_name(data: bytes) -> None:
    name = _text(data)
    log_name, number = split_file_name(plain_name(name))
    if split_file_name(f"{log_name}.{number:06}") != (log_name, number):
        raise Wrong(f"a name that reads otherwise: {name}")


def _server_error(data: bytes) -> None:
    check_text(from_reply(*parse_reply(data), file="binlog.000001", offset=4))


_MANIFEST = manifest(42)

_CHECKPOINT = Checkpoint(
    SourceIdentity(Flavor.MYSQL, "u", "binlog"),
    Position("binlog.000002", 99, "4f1e6f83-e4ef-11f0-9d0c-0242ac110002:1-5"),
    7,
    "2026-01-01T00:00:00Z",
    "a run",
)
_OTHER_CHECKPOINT = Checkpoint(
    SourceIdentity(Flavor.MARIADB, "v", "a.b"),
    Position("a.b.000009", 4, "0-1-7,3-9-2", logged="0-1-7"),
    0,
    "",
    "\u00e9",
)
_CHECKPOINTS = _CHECKPOINT.encode().encode(), _OTHER_CHECKPOINT.encode().encode()
_TAGGED = GtidSet.parse(f"{builder.SERVER_UUID}:1-5:9:tag:1-3:7, {builder.SERVER_UUID[:-1]}f:8")
_STATEMENTS = (
    b"XA START X'6162',X'',1",
    b"/*!40000 ALTER TABLE `a``b` DISABLE KEYS */",
    b"-- comment\nCREATE TABLE t (a int) -- '\n",
    b"INSERT INTO t VALUES ('it''s \\' \"x\"', \"\\\\\") # end",
    b"SAVEPOINT `a`",
)
_ROWS_TYPES = tuple(sorted(ROWS))
_GTID_TYPES = (EventType.GTID, EventType.ANONYMOUS_GTID, EventType.GTID_TAGGED)
_MYSQL_GTIDS = (
    builder.gtid(7, original_timestamp_us=5),
    builder.gtid(0, server=None),
    builder.gtid_tagged(9, "tag"),
)
_HEARTBEAT_V2 = bytes((1, 13)) + b"binlog.000007" + bytes((2, 2)) + b"\xfc\x10" + b"\0"


def _whole_events() -> Sequence[bytes]:
    return tuple(bytes(event.data) for event in seeds.events())


_SQL_TYPES = (
    *(b"decimal(10,2) unsigned", b"varchar(40) compressed", b"datetime(6)", b"bit(9)"),
    *(
        b"enum('a','it''s','b,c')",
        rb"set('x\\y','')",
        b"double precision (7, 3)",
        b"long varbinary",
    ),
)

EVENT_TARGETS = (
    Target("header", EventHeader.parse, _whole_events),
    Target(
        "format_description",
        FormatDescription.parse,
        lambda: [data for data in _whole_events() if data[4] == EventType.FORMAT_DESCRIPTION],
    ),
    _event("rotate", control_events.Rotate.parse, EventType.ROTATE),
    _event("heartbeat_v2", control_events.read_heartbeat_offset, more=[_HEARTBEAT_V2]),
    _event("incident", control_events.Incident.parse, more=[b"\1\0\5ouch!"]),
    _event("query", _query, EventType.QUERY),
    _event("xa_prepare", _xa_prepare, EventType.XA_PREPARE),
    _event("gtid", _each_type(_GTID_TYPES, _mysql_gtid), *_GTID_TYPES, more=_MYSQL_GTIDS),
    Target("gtid_set", _gtid_set, lambda: (*_gtid_sets(), _TAGGED.encode())),
    Target("gtid_set_text", _gtid_text, lambda: (b"", str(_TAGGED).encode())),
    _event("mariadb_gtid", _mariadb_gtid, EventType.MARIADB_GTID),
    _event("mariadb_gtid_list", gtid_events.read_gtid_list, EventType.MARIADB_GTID_LIST),
    Target("mariadb_gtid_text", _mariadb_gtid_text, lambda: (b"", b"0-1-7,3-9-18446744073709551")),
    _event("table_map", _table_map, EventType.TABLE_MAP),
    _event("rows_header", _each_type(_ROWS_TYPES, RowsHeader.parse), *_ROWS_TYPES),
    Target("statement", _statement, lambda: (*seeds.bodies(EventType.ROWS_QUERY), *_STATEMENTS)),
    Target("sql_type", _sql_type, lambda: _SQL_TYPES),
    Target("manifest", _manifest, lambda: [_MANIFEST.encode()], mutate_json),
    Target(
        "schema_file",
        _schema_file,
        lambda: list(map(SCHEMA_FILE.encode, files_of(_MANIFEST))),
        mutate_json,
    ),
    Target("checkpoint", _checkpoint, lambda: _CHECKPOINTS, mutate_json),
    Target("file_name", _file_name, lambda: (b"binlog.000001", b"a/b.c.000123.zst", b".1.gz")),
    Target("server_error", _server_error, lambda: [b"\xff\xd4\x04#HY000Could not find first log"]),
)


def _gtid_sets() -> Sequence[bytes]:
    return seeds.bodies(EventType.PREVIOUS_GTIDS)
