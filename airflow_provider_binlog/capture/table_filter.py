"""Which tables are captured."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import (
    SYSTEM_DATABASES,
    find_unmatched,
    is_exact_glob,
    matches_globs,
)
from airflow_provider_binlog.position import Flavor
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.sql.statement_types import (
    RDS_DATABASE,
    first_keyword,
    writes_rds_table,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from airflow_provider_binlog.binlog.events.statements import Query


# A table that a statement creates is none of those that it opens.
_CHANGES_OPENED_TABLES = frozenset({"INSERT", "UPDATE", "DELETE", "REPLACE", "WITH"})


@dataclass(frozen=True)
class GlobMatches:
    """The globs of a filter compared with tables.

    Attributes:
        captured: The tables that are captured.
        unmatched: Globs that match no table, to be warned of.
        is_misspelled: Whether one of them is to be corrected before anything is staged.
    """

    captured: frozenset[TableName]
    unmatched: tuple[str, ...]
    is_misspelled: bool


@dataclass(frozen=True)
class TableFilter:
    """Globs of `database.table`: one to include has to match, and none to exclude may.

    The server's own databases are captured only where a glob names them without a wildcard in the
    database: `*.*` means every table of the users.

    Attributes:
        include: `shop.*`, `shop.orders`; case counts.
        exclude: The same.

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
        name = f"{database}.{table}"
        if database in SYSTEM_DATABASES:
            globs = [glob for glob in self.include if glob.startswith(f"{database}.")]
        else:
            globs = list(self.include)
        return matches_globs(name, globs, self.exclude)

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

    def match_names(
        self,
        logged: Collection[TableName],
        table_names: Callable[[], Collection[TableName]],
        *,
        is_first: bool,
    ) -> GlobMatches:
        """Compare the globs with the tables of a range and, where needed, of the server.

        Args:
            logged: The tables of the range.
            table_names: Returns the tables that the account sees on the server.
            is_first: Whether it is the first range of its source: all globs are compared once.
        """
        names, on_server = set(logged), set[TableName]()
        if is_first or self.find_misspelled(names):
            on_server = set(table_names())
            names |= on_server
        unmatched = misspelled = self.find_misspelled(names)
        # An account that sees no tables is none to judge by.
        sees_tables = any(database not in SYSTEM_DATABASES for database, _ in on_server)
        is_misspelled = is_first and sees_tables and bool(misspelled)
        if is_first and not is_misspelled:
            unmatched = find_unmatched((*self.include, *self.exclude), map(".".join, names))
        captured = frozenset(name for name in names if self.matches(*name))
        return GlobMatches(captured, tuple(unmatched), is_misspelled)

    def may_match_in(self, database: str) -> bool:
        """Whether a table of this database may be captured; never False for one that is."""
        # Names may hold dots, and wildcards match dots: any front of a glob may be the database's.
        name = f"{database}."
        return any(
            fnmatchcase(name, glob[:size]) for glob in self.include for size in range(len(glob) + 1)
        )
