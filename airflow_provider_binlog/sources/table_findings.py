"""What the tables of a server are like for capture, as the account sees them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import closing

from airflow_provider_binlog.capture.segments import check_names
from airflow_provider_binlog.errors import BinlogError, ServerSetupError
from airflow_provider_binlog.names import (
    find_unmatched,
    is_captured,
    join_table_name,
    quote_identifier,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.rows.layout import compile_layout
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.schema_history.completion import describe
from airflow_provider_binlog.sql.columns import PartialSchema
from airflow_provider_binlog.transport.server import queries, setup
from airflow_provider_binlog.transport.server.driver import (
    Connect,
    Connection,
    driver_errors,
    query,
)
from airflow_provider_binlog.transport.server.information_schema import (
    ServerTables,
    find_keyless,
    list_tables,
    quote_table,
    read_kinds,
    read_server_tables,
)
from airflow_provider_binlog.transport.server.setup import Finding, Level
from airflow_provider_binlog.transport.server.tables import ForeignKeys, unlogged_foreign_keys


@driver_errors()
def list_table_findings(
    connect: Connect, include: Sequence[str], exclude: Sequence[str]
) -> list[Finding]:
    """Return what the tables are like that globs match.

    Nobody can alter them for the moment that it takes to read their columns.
    """

    def captured(database: str, table: str) -> bool:
        return is_captured((database, table), include, exclude)

    with closing(connect()) as connection:
        of, values = queries.server_version(connection), queries.global_variables(connection)
        account = setup.quoted_account(connection)
        kinds = list_tables(connection)
        # A table that may not be read is one that is not captured, or not loaded.
        level = Level.ERROR if setup.needs_select(of, values) else Level.WARNING
        findings = [
            _check_globs(include, exclude, kinds, account),
            _check_databases(connection, captured, kinds),
        ]
        tables = read_server_tables(connection, [name for name in kinds if captured(*name)])
        findings.append(_check_select(tables, level, account))
        findings += _check_kinds(tables, kinds, captured)
        findings.append(_check_keys(tables))
        findings += _check_locks(connection, tables, of, values, account)
        findings += _check_types(tables, of)
        findings += _check_generated(connection, tables, of, values)
    return [*findings, *_check_foreign_keys(unlogged_foreign_keys(connect, captured))]


def _check_globs(
    include: Sequence[str], exclude: Sequence[str], kinds: Collection[TableName], account: str
) -> Finding:
    captured = [name for name in kinds if is_captured(name, include, exclude)]
    found = f"{len(captured)}, as far as the account sees"
    if not (unmatched := find_unmatched(include, map(".".join, kinds))):
        return Finding("tables", found)
    grants = (f"GRANT SELECT ON {_scope(glob)} TO {account};" for glob in unmatched)
    return Finding(
        "tables",
        found,
        Level.ERROR,
        "globs match no table, including lettercase, that the account sees",
        f"correct them, or {' '.join(dict.fromkeys(grants))}",
        tuple(unmatched),
    )


def _scope(glob: str) -> str:
    """Return what a GRANT names for the tables that a glob matches."""
    database, _, table = glob.partition(".")
    names = (database, table)
    quoted = [name if name == "*" else quote_identifier(name) for name in names]
    if "*" in database or "?" in database:
        return "*.*"
    return ".".join(quoted) if not set(table) & set("*?[") else f"{quoted[0]}.*"


def _check_databases(
    connection: Connection, captured: Callable[[str, str], bool], kinds: Collection[TableName]
) -> Finding:
    databases = {database for database, table in kinds if captured(database, table)}
    try:
        setup.check_databases(connection, databases.__contains__, databases)
    except ServerSetupError as error:
        why, _, repair = str(error.args[0]).partition(": ")
        named = str(error.context.get("databases", ""))
        return Finding("binlog_do_db, binlog_ignore_db", named, Level.ERROR, why, repair)
    return Finding("binlog_do_db, binlog_ignore_db", "all databases are logged")


def _check_select(tables: ServerTables, level: Level, account: str) -> Finding:
    if not tables.refused:
        return Finding("privilege SELECT", "granted")
    names = sorted(tables.refused)
    effect = "quarantined once they change" if level is Level.ERROR else "not loaded"
    return Finding(
        "privilege SELECT",
        f"missing for {len(names)} tables",
        level,
        f"{tables.refused[names[0]]}; such tables are {effect}",
        " ".join(f"GRANT SELECT ON {quote_table(name)} TO {account};" for name in names),
        tuple(map(join_table_name, names)),
    )


def _check_kinds(
    tables: ServerTables, kinds: Mapping[TableName, str], captured: Callable[[str, str], bool]
) -> list[Finding]:
    sequences = [name for name, kind in kinds.items() if kind == "SEQUENCE" and captured(*name)]
    refused = {
        "WITH SYSTEM VERSIONING": sorted(tables.versioned),
        "SEQUENCE": sorted(sequences),
    }
    return [
        Finding(
            f"kind {kind}",
            f"{len(names)} tables",
            Level.ERROR,
            "such tables are not loaded, and quarantined once they change",
            "leave them out",
            tuple(map(join_table_name, names)),
        )
        for kind, names in refused.items()
        if names
    ]


def _check_keys(tables: ServerTables) -> Finding:
    keyless = find_keyless(tables.tables)
    if not keyless:
        return Finding("key", f"all of {len(tables.tables)} tables have one")
    return Finding(
        "key",
        f"missing in {len(keyless)} tables",
        Level.WARNING,
        "the lake table gets a row for each change, in place of the table's rows, and a snapshot "
        "takes LOCK TABLES",
        "name a key by TableOptions(key=...), or ALTER TABLE ... ADD PRIMARY KEY",
        tuple(map(join_table_name, keyless)),
    )


def _check_locks(
    connection: Connection,
    tables: ServerTables,
    of: queries.ServerVersion,
    values: Mapping[str, str],
    account: str,
) -> list[Finding]:
    """Return whether snapshots of tables lack LOCK TABLES.

    Those of MariaDB need it, too, once it has committed an XA transaction in two phases.
    """
    kinds = read_kinds(connection, tables.tables)
    locked = {name for name, kind in kinds.items() if not kind.has_transactions}
    if of.flavor is Flavor.MYSQL:
        has_gtids = values.get("gtid_mode", "OFF").upper() == "ON"
        locked |= {*find_keyless(tables.tables)} if has_gtids else tables.tables.keys()
    if not locked:
        return []
    covers = setup.read_grants(connection, "LOCK TABLES")
    lacking = sorted(name for name in locked if not covers(name[0]))
    if not lacking:
        return [Finding("privilege LOCK TABLES", "granted")]
    databases = sorted({database for database, _ in lacking})
    return [
        Finding(
            "privilege LOCK TABLES",
            f"missing for {len(lacking)} tables",
            Level.WARNING,
            "the position of their rows is known under a lock: their snapshots are refused",
            " ".join(
                f"GRANT LOCK TABLES ON {quote_identifier(database)}.* TO {account};"
                for database in databases
            ),
            tuple(map(join_table_name, lacking)),
        )
    ]


def _check_foreign_keys(keys: ForeignKeys) -> Iterator[Finding]:
    for key in keys.unlogged:
        yield Finding(
            "foreign key",
            f"{key.name} {key.rules}",
            Level.WARNING,
            "it changes rows without events in the log: the lake keeps their previous values",
            "load the table again now and then, or let the application change the rows",
            (join_table_name((key.database, key.table)),),
        )
    if keys.unknown:
        yield Finding("foreign key", "not known, or not all", Level.WARNING, keys.unknown)


def _check_types(tables: ServerTables, of: queries.ServerVersion) -> list[Finding]:
    by_reason: dict[str, list[TableName]] = {}
    for name, schema in sorted(tables.tables.items()):
        if reason := _find_refusal(name, schema, of):
            by_reason.setdefault(reason, []).append(name)
    return [
        Finding(
            "columns",
            f"not read in {len(names)} tables",
            Level.ERROR,
            reason,
            "leave them out",
            tuple(map(join_table_name, names)),
        )
        for reason, names in by_reason.items()
    ]


def _find_refusal(name: TableName, schema: PartialSchema, of: queries.ServerVersion) -> str:
    """Return why rows of a table cannot be read; empty if they can."""
    try:
        check_names(compile_layout(describe(name, schema, of.flavor, of.version)))
    except BinlogError as error:
        named = {name: error.context[name] for name in ("column", "type") if name in error.context}
        where = ", ".join(f"{key} {value}" for key, value in named.items())
        return f"{error.args[0]}{f' ({where})' if where else ''}"
    return ""


_LACKS_GENERATED = (11, 8, 9)
"""From here on MariaDB leaves generated columns out of updates, whatever binlog_row_image is."""


def _check_generated(
    connection: Connection,
    tables: ServerTables,
    of: queries.ServerVersion,
    values: Mapping[str, str],
) -> list[Finding]:
    if of.flavor is not Flavor.MARIADB:
        return []
    lacks_all = of.version >= _LACKS_GENERATED
    if not lacks_all and values.get("binlog_row_image") not in {"MINIMAL", "FULL_NODUP"}:
        return []
    rows = query(
        connection,
        "SELECT DISTINCT TABLE_SCHEMA AS `database`, TABLE_NAME AS name"
        " FROM information_schema.COLUMNS WHERE EXTRA LIKE %s",
        "%GENERATED%" if lacks_all else "%VIRTUAL GENERATED%",
    )
    names = sorted({(str(row["database"]), str(row["name"])) for row in rows} & {*tables.tables})
    if not names:
        return []
    repair = "leave them out" if lacks_all else "SET GLOBAL binlog_row_image = FULL;"
    return [
        Finding(
            "generated columns",
            f"in {len(names)} tables",
            Level.ERROR,
            "the log lacks their values: a table is quarantined once a row of it changes",
            repair,
            tuple(map(join_table_name, names)),
        )
    ]
