"""The query that folds versioned rows onto the versions of a history, for Spark and PostgreSQL.

Source columns are called by their number there, as in `sql.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from airflow_provider_binlog.names import quote_identifier
from airflow_provider_binlog.spark.names import quote_text
from airflow_provider_binlog.spark.target.protocol import (
    DELETED,
    LACKS,
    NUMBER,
    held,
    source_column,
)
from airflow_provider_binlog.spark.target.sql import ORPHAN, comparable

_CURRENT, _CLOSED = -1, -2
"""The `NUMBER` of a version that the target has: before all rows of its key."""


class Dialect(NamedTuple):
    """Differences between the SQL of Spark and of PostgreSQL.

    Attributes:
        quote: Quotes a name.
        micros: A time in microseconds since 1970, with the time as `{0}`.
        time: The reverse.
        comparable: See `sql.comparable`.
    """

    quote: Callable[[str], str]
    micros: str
    time: str
    comparable: Callable[[str, str], str]


SPARK = Dialect(quote_identifier, "unix_micros({0})", "timestamp_micros({0})", comparable)


def versions_to_write(
    columns: Mapping[str, str],
    *,
    source: str,
    key: Sequence[str],
    start: str,
    end: str,
    tracked: Sequence[str],
    groups: Sequence[Sequence[str]] = (),
    target: str = "",
    filled: Mapping[str, str] | None = None,
    range_: str | None = None,
    dialect: Dialect = SPARK,
) -> str:
    """Return the query of the versions that versioned rows make; see `VersionedRows`.

    Those are new ones, and the current one of each key, which changes, or ends. A row that lacks
    what is in the target alone fails it if the key has no current version: with `groups` it is of
    Spark alone.

    Args:
        columns: Names and types of all columns, in the order of the source rows.
        source: Where the versioned rows are.
        key: Which of them identify a row.
        start: Which of them says from when on a version holds.
        end: Which of them says until when.
        tracked: Which of them make another version.
        groups: As of `sql.merge`, by name.
        target: The table's name, quoted; empty where it has no versions.
        filled: As of `sql.merge`.
        range_: As of `sql.merge`.
        dialect: In whose SQL.
    """
    given_as = {name: source_column(at) for at, name in enumerate(columns)}
    names, since, until = [*given_as.values()], given_as[start], given_as[end]
    by = ", ".join(given_as[name] for name in key)
    window = f" WINDOW w AS (PARTITION BY {by} ORDER BY {NUMBER})"
    micros, time = dialect.micros.format, dialect.time.format

    def current(value: str) -> str:
        return f"first(CASE WHEN {NUMBER} = {_CURRENT} THEN {value} END, true) OVER w"

    flags = [held(number) for number in range(len(groups))]
    given = ", ".join([*names, DELETED, NUMBER, *([*flags, LACKS] if groups else ())])
    rows = f"SELECT {given} FROM {source}"  # noqa: S608  Every name below is quoted.
    if target:
        own = {name: f"t.{dialect.quote(name)}" for name in columns} | {**(filled or {})}
        stored = [f"{own[name]} AS {given_as[name]}" for name in columns]
        stored += [f"{own[end]} IS NOT NULL"]
        stored += [f"CASE WHEN {own[end]} IS NULL THEN {_CURRENT} ELSE {_CLOSED} END"]
        stored += [*("true" for _ in flags), "NULL"] if groups else []
        same = " AND ".join(f"{own[name]} IS NOT DISTINCT FROM s.{given_as[name]}" for name in key)
        rows += (
            f" UNION ALL SELECT {', '.join(stored)} FROM {target} AS t"  # noqa: S608
            f" WHERE EXISTS (SELECT 1 FROM {source} AS s WHERE {same})"
        )
        rows += "" if range_ is None else f" AND ({range_})"
    whole, deleted = {name: name for name in names}, DELETED
    for flag, group in zip(flags, groups, strict=True):
        whole |= {
            value: f"CASE WHEN {flag} THEN {value} ELSE {current(value)} END"
            for value in map(given_as.__getitem__, group)
        }
    if groups:
        is_orphan = f"NOT {DELETED} AND {LACKS} IS NOT NULL AND {current('true')} IS NULL"
        refused = f"CAST(raise_error({quote_text(ORPHAN)}) AS boolean)"
        deleted = f"CASE WHEN {is_orphan} THEN {refused} ELSE {DELETED} END"
    listed = ", ".join(f"{value} AS {name}" for name, value in whole.items())
    values = [dialect.comparable(given_as[name], columns[name]) for name in tracked]
    was = "".join(f", lag({value}) OVER w AS was{at}" for at, value in enumerate(values))
    changed = [f"{value} IS DISTINCT FROM was{at}" for at, value in enumerate(values)]
    differs = f" OR (NOT {DELETED} AND ({' OR '.join(changed)}))" if changed else ""
    last = f"greatest({micros(since)}, {micros(until)})"
    kept = ", ".join(name for name in names if name not in (since, until))
    # At the n-th boundary: the last of all times so far, each later by as many microseconds as
    # there are boundaries after it.
    at = f"max(CASE WHEN bounds THEN {micros(since)} - version WHEN {NUMBER} < 0 THEN {last}"
    # A key has one current version.
    began = f"max(CASE WHEN {NUMBER} = {_CURRENT} THEN {since} END) OVER w"
    return (
        f"WITH found AS ({rows}), whole AS ("  # noqa: S608
        f"SELECT {listed}, {deleted} AS {DELETED}, {NUMBER} FROM found{window}), compared AS ("
        f"SELECT *, lag({DELETED}, 1, true) OVER w AS was_deleted{was} FROM whole{window})"
        f", bounded AS (SELECT *, {NUMBER} >= 0 AND ({DELETED} != was_deleted{differs}) AS bounds"
        f" FROM compared), counted AS (SELECT *, sum(CASE WHEN bounds THEN 1 ELSE 0 END) OVER w"
        f" AS version FROM bounded{window}), timed AS (SELECT *, version + {at} END) OVER w AS at,"
        f" lead(version) OVER w AS following, {began} AS since FROM counted{window})"
        f", ended AS (SELECT *, lead(at) OVER w AS until FROM timed"
        f" WHERE following IS DISTINCT FROM version{window})"
        f" SELECT {kept}, CASE WHEN version = 0 THEN since ELSE {time('at')} END AS {since},"
        f" {time('until')} AS {until}, false AS {DELETED} FROM ended WHERE NOT {DELETED}"
    )
