"""Globs of tables, and whether every one matches: a misspelled one captures nothing, for ever."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import SYSTEM_DATABASES
from airflow_provider_binlog.schema import TableName
from airflow_provider_binlog.table_options import TableRules

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from airflow_provider_binlog.capture import TableFilter
    from airflow_provider_binlog.sources.log import Log

_SHOWN = 50


@dataclass(frozen=True)
class GlobCheck:
    """Compares globs with the tables of a range and, where these are not enough, of the server.

    Attributes:
        source: The source's name.
        log: Its log.
        tables: The globs.
        logger: The task's.
    """

    source: str
    log: Log
    tables: TableFilter
    logger: Any

    def __call__(self, sequence: int, logged: Collection[TableName]) -> None:
        """Check the globs before a manifest is committed.

        Raises:
            ConfigurationError: One matches nothing, and the manifest is the source's first.
        """
        first, names, there = sequence == 1, set(logged), set[TableName]()
        if first or self.tables.unmatched(names):
            there = set(self.log.table_names())
        names |= there
        if first:
            self._list(sorted(name for name in names if self.tables.matches(*name)))
        left = self.tables.unmatched(names)
        if not left:
            return
        text = (
            "globs match no table of the log or of the server, in letters and case: correct them, "
            "or GRANT SELECT on the tables to the account, which sees no others"
        )
        # An account that may see no tables at all is none to judge by.
        if first and any(database not in SYSTEM_DATABASES for database, _ in there):
            raise ConfigurationError(text, globs=", ".join(left))
        self.logger.warning("%s: %s (globs=%s)", self.source, text, ", ".join(left))

    def _list(self, matched: list[TableName]) -> None:
        shown = ", ".join(map(".".join, matched[:_SHOWN])) or "none yet"
        more = f" and {len(matched) - _SHOWN} more" if len(matched) > _SHOWN else ""
        self.logger.info("%s: captures %d tables: %s%s", self.source, len(matched), shown, more)


def read_globs(value: Any, name: str) -> tuple[str, ...]:
    """Return globs given as a list; a text alone would be read letter by letter.

    Raises:
        ConfigurationError: It is no list of texts.
    """
    globs = () if value is None else value
    if not isinstance(globs, list | tuple) or not all(isinstance(each, str) for each in globs):
        raise ConfigurationError(f"{name} is a list of globs such as shop.*", given=value)
    return tuple(globs)


def read_table_rules(
    table_name: str | None = None, keys: Mapping[str, Sequence[str]] | None = None
) -> TableRules:
    """Return the options of tables that two arguments of operators give.

    Raises:
        ConfigurationError: One cannot be used as given.
    """
    rules: dict[str, dict[str, Any]] = {"*": {"target": table_name}} if table_name else {}
    for table, columns in (keys or {}).items():
        rules[table] = {**rules.get(table, {}), "key": columns}
    return TableRules.read(rules)
