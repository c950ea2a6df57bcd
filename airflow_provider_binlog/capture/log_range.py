"""The tables that a run stages, and the range of the log that one manifest covers."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Sequence
from dataclasses import KW_ONLY, asdict, dataclass, field
from fnmatch import fnmatchcase

import pyarrow as pa

from airflow_provider_binlog import __version__
from airflow_provider_binlog.binlog.events.statements import Query
from airflow_provider_binlog.changes import DEFAULT_POLICIES, BeforeImages, OnTableError, Policies
from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.limits import Limits
from airflow_provider_binlog.manifest import Prepared
from airflow_provider_binlog.names import (
    SYSTEM_DATABASES,
    find_unmatched,
    is_captured,
    is_exact_glob,
)
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.protected_columns import NO_RULES, ColumnRules
from airflow_provider_binlog.read_progress import OnProgress, ignore_progress
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.schema_history.partial_schemas import TrackedSchemas
from airflow_provider_binlog.schema_history.statements import LoggedChange, ServerTablesReader
from airflow_provider_binlog.schema_history.tables import NOTHING_KNOWN, TableLookup
from airflow_provider_binlog.sql.statement_types import (
    RDS_DATABASE,
    first_keyword,
    writes_rds_table,
)
from airflow_provider_binlog.transport.server.information_schema import ServerTables

# A table that a statement creates is none of those that it opens.
_CHANGES_OPENED_TABLES = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"})


@dataclass(frozen=True)
class TableFilter:
    """Globs of `database.table`: one to include has to match, and none to exclude may.

    The server's own databases are captured only where a glob names them without a wildcard in the
    database: `*.*` means every table of the users. Case counts.

    Raises:
        ConfigurationError: Nothing is included, or a glob has no dot.
    """

    include: Sequence[str]
    exclude: Sequence[str] = ()

    def __post_init__(self) -> None:
        if not self.include:
            raise ConfigurationError("no tables: name them, `shop.*` for all of a database")
        for glob in (*self.include, *self.exclude):
            if "." not in glob:
                raise ConfigurationError("tables are globs of database.table", glob=glob)

    def matches(self, database: str, table: str) -> bool:
        """Whether this table is captured."""
        return is_captured((database, table), self.include, self.exclude)

    @property
    def databases(self) -> set[str]:
        """The databases that are named without a wildcard."""
        names = {glob.partition(".")[0] for glob in self.include}
        return {name for name in names if not set(name) & set("*?[")}

    def may_capture_from(self, database: str) -> bool:
        """Whether a table of this database may be captured; the excluded ones are looked at."""
        if database in SYSTEM_DATABASES:
            return any(glob.startswith(f"{database}.") for glob in self.include)
        whole = [glob.removesuffix(".*") for glob in self.exclude if glob.endswith(".*")]
        excluded = any(fnmatchcase(database, glob) for glob in whole)
        return not excluded and self.may_match_in(database)

    def leaves_out(self, query: Query) -> bool:
        """Whether it is certain that a logged statement changes no captured table.

        Its text does not say so: a trigger or a function may change others. Its event does, by the
        databases of all of its tables. MariaDB's does not; there only what Amazon RDS notes about
        its server, every few minutes and whatever `binlog_format` is, is known to change nothing.
        """
        databases = query.databases
        if databases is None:
            of_rds = writes_rds_table(query.sql, query.session(Flavor.MARIADB))
            return of_rds and not self.may_capture_from(RDS_DATABASE)
        if any(map(self.may_capture_from, databases)):
            return False
        return first_keyword(query.sql, query.session(Flavor.MYSQL)) in _CHANGES_OPENED_TABLES

    def find_misspelled(self, names: Collection[TableName]) -> list[str]:
        """Return the globs that should match one of these tables, and do not.

        A glob to exclude may match nothing: it names tables that come and go, `*.tmp_*`.
        """
        exact = filter(is_exact_glob, self.exclude)
        return find_unmatched((*self.include, *exact), map(".".join, names))

    def may_match_in(self, database: str) -> bool:
        """Whether a table of this database may be captured; never False for one that is."""
        # Names may hold dots, and wildcards match dots: any front of a glob may be the database's.
        name = f"{database}."
        return any(
            fnmatchcase(name, glob[:size]) for glob in self.include for size in range(len(glob) + 1)
        )


@dataclass(frozen=True)
class ExtractRequest:
    """A range to stage, and how.

    Attributes:
        start: A boundary between two transactions: everything before it is staged.
        stop: Another boundary.
        identity: The server that wrote the log.
        sequence: Number of the first manifest: one more than that of the last one before `start`.
        columns: Which columns are excluded or hashed.
        on_table_error: Whether a table that cannot be captured is quarantined, or fails the range.
        read_server_tables: Queries the server's information_schema, where the log lacks the names
            of a table's columns, or those of their types that only MariaDB has. None: the log
            must have them.
        wants_defaults: Whether that query includes the defaults of all columns: inserts may lack
            columns under another `binlog_row_image` than FULL.
        issued_by: The server that issued `start`, if that is not `identity`, which was promoted.
        find_gtids: Finds the position in this server's log where a GTID set ends; needed if
            `issued_by` is another server.
        bytes_total: Bytes of log in the range, if known; only reported.
        on_progress: Called after each block of the log.
        on_tables: Called before a manifest is committed, with its number and the tables that the
            range's log names, captured or not. What it raises keeps the range from being staged.
        even_empty: Whether a range without transactions is staged, too, if nothing else is: one
            manifest says then how far the log is known.
        sub_range: Of which plan, and which of its sub-ranges; empty for a range of its own.
    """

    start: Position
    stop: Position
    _: KW_ONLY
    identity: SourceIdentity
    sequence: int
    source_name: str
    tables: TableFilter
    before_images: BeforeImages
    created_by: str
    limits: Limits = field(default_factory=Limits)
    policies: Policies = DEFAULT_POLICIES
    columns: ColumnRules = NO_RULES
    on_table_error: OnTableError = OnTableError.QUARANTINE
    read_server_tables: ServerTablesReader | None = None
    wants_defaults: bool = False
    issued_by: SourceIdentity | None = None
    find_gtids: Callable[[str], Position] | None = None
    bytes_total: int | None = None
    on_progress: OnProgress = ignore_progress
    on_tables: Callable[[int, Collection[TableName]], None] | None = None
    even_empty: bool = False
    sub_range: str = ""

    @property
    def range_id(self) -> str:
        """A name for the range's parts: that of another range under the same number differs.

        Two runs may stage at once, up to different stops, before one of them commits the number:
        neither may overwrite what the other's manifest names.
        """
        deciding = (
            __version__,
            self.identity.to_json(),
            (self.start.file, self.start.offset),
            (self.stop.file, self.stop.offset),
            (list(self.tables.include), list(self.tables.exclude)),
            self.before_images.value,
            (self.policies.zero_dates.value, self.policies.invalid_text.value),
            self.columns.deciding,
            asdict(self.limits),
            # Another release of Arrow may write the same rows in other bytes.
            pa.__version__,
            self.sub_range,
        )
        return hashlib.sha256(json.dumps(deciding).encode()).hexdigest()[:12]


@dataclass(frozen=True)
class LogRange:
    """A range of the log, and what is known at its start.

    Attributes:
        request: What to stage, from the range's start and under the manifest's number.
        prepared: The XA transactions that are in doubt at the start.
        captured_since: Number of the first manifest, without a gap, that has the same `tables`.
        files: Files of the log before the range that its rows are numbered after.
        schemas: Schemas of tables at the start; None for those of `known`.
        changes: What statements did to schemas up to `changes_stop`, in log order, where that is
            known already.
        changes_stop: A position at or after the stop; None for the stop.
        server_tables: The tables of information_schema at `changes_stop`, in place of a server.
    """

    request: ExtractRequest
    prepared: Sequence[Prepared] = ()
    known: TableLookup = NOTHING_KNOWN
    captured_since: int = 1
    files: Sequence[str] = ()
    schemas: TrackedSchemas | None = None
    changes: Sequence[LoggedChange] = ()
    changes_stop: Position | None = None
    server_tables: ServerTables | None = None
