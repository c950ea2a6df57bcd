"""One run: random statements, captured and merged range by range, compared after each range."""

from __future__ import annotations

import re
from collections import Counter
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from random import Random
from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import OnTableError
from tests.random_ddl.comparison import find_differences
from tests.random_ddl.writer import Writer

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.pipeline import Pipeline

DOCUMENTED = {
    "rewritten": "rows changed without row events",
    "initial default": "the value that older rows have in the new column",
    "type": "in the lake, and is .* now|Iceberg does not change the type of a column so",
    "key": "primary key (was dropped|changed)|got a primary key|have another key",
    "key column": "column .* of the lake table's key was dropped",
    "renamed changelog": "has no key, and the rows that it had when it was renamed",
    "key value": "values in the key column .* are zero dates or invalid",
    "key image": "a row image lacks columns of the key|rows got another key in images",
    "schema": "the log does not say enough of a captured table's columns",
    "another table": "the name stands for another table|was called .* before it was renamed",
    "defaults": "what the others took is not known",
    "orphan": "rows that the lake table does not have",
    "case": "two columns differ only in case",
    "kept rows": "keeps removed rows|values of removed rows",
    "options": "its options say .*, and the lake table was made with",
    "tracked": "track_columns names columns that the table does not have",
}
"""What a merge may refuse, by what docs/limits.md says of it."""


class WrongError(Exception):
    """A lake table is not what SELECT returns, and no error said so."""


@dataclass
class Outcome:
    """What a run came to.

    Attributes:
        statements: How many the server took.
        changes: Change rows that were staged.
        equal: Comparisons of a table that held.
        refused: Tables that a merge refused, by reason.
        snapshots: How many were taken.
        loaded: Rows of these snapshots.
    """

    statements: int = 0
    changes: int = 0
    equal: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    snapshots: int = 0
    loaded: int = 0


@contextmanager
def noted(pipeline: Pipeline, writer: Writer, seed: str) -> Iterator[None]:
    """Add to an error what was run, and on what."""
    try:
        yield
    except Exception as error:
        server, format_ = pipeline.database.server.name, pipeline.workplace.format
        error.add_note(f"seed {seed}, {server}, {format_}")
        error.add_note(f"options {pipeline.table_options.to_text()}")
        error.add_note("\n".join(writer.log))
        raise


def run(
    pipeline: Pipeline,
    seed: str,
    *,
    ranges: int,
    tables: int,
    bulk: int = 0,
) -> Outcome:
    """Write, capture, merge and compare; `bulk` is that of `Writer`.

    Raises:
        WrongError: A table differs, or is refused for a reason that is not documented.
    """
    random, outcome = Random(seed), Outcome()
    pipeline.on_table_error = OnTableError.QUARANTINE
    with (
        closing(Writer(pipeline.database, random, tables=tables, bulk=bulk)) as writer,
        noted(pipeline, writer, seed),
    ):
        for _ in range(ranges):
            writer.log.append(f"-- range {pipeline.next_sequence}")
            writer.work(random.randint(5, 40))
            _check(pipeline, writer, outcome)
        outcome.statements = len(writer.log)
    entries = (entry for manifest in pipeline.manifests for entry in manifest.tables)
    outcome.changes = sum(part.rows for entry in entries for part in entry.parts)
    return outcome


def _check(pipeline: Pipeline, writer: Writer, outcome: Outcome) -> None:
    pipeline.capture()
    errors = pipeline.merge()
    for table, error in errors.items():
        outcome.refused[_reason(table, error)] += 1
    wrong = list(find_differences(pipeline, but=errors))
    if wrong:
        raise WrongError("\n".join(wrong))
    outcome.equal += len(set(writer.tables()) - errors.keys())
    for table in errors:
        # Its name needs a reload from here on.
        if table in writer.tables():
            writer.replace(table)


def _reason(table: str, error: str) -> str:
    for reason, text in DOCUMENTED.items():
        if re.search(text, error):
            return reason
    raise WrongError(f"{table} is refused for no documented reason: {error}")
