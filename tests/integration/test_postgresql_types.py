"""A value in PostgreSQL is the value that SELECT returns at the source, for every type."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import pytest

from tests.integration.test_oracle_types import TYPES
from tests.oracle.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.pipeline import Pipeline

_slow = pytest.mark.slow


@pytest.mark.parametrize(
    ("kind", "release"),
    [
        ("mysql97", "postgresql18"),
        pytest.param("mysql97", "postgresql15", marks=_slow),
        pytest.param("mariadb118", "postgresql18", marks=_slow),
    ],
)
def test_edge_values_of_every_type(
    kind: str, release: str, create_pipeline: Callable[..., Pipeline]
) -> None:
    pipeline = create_pipeline(kind, release)
    columns = ", ".join(f"c{number} {each.sql}" for number, each in enumerate(TYPES))
    database = pipeline.database
    with closing(Session(database.server, database=database.name)) as session:
        session.execute("SET SESSION sql_mode = 'ALLOW_INVALID_DATES'")
        session.execute(f"CREATE TABLE edges (id INT PRIMARY KEY, {columns}) ROW_FORMAT=DYNAMIC")
        for row in range(max(len(each.values) for each in TYPES) + 1):
            # What COPY escapes, in place of what PostgreSQL does not hold.
            values = (
                each.values[row].replace(r"\0", r"\t\r\\") if row < len(each.values) else "NULL"
                for each in TYPES
            )
            session.execute(f"INSERT INTO edges VALUES ({row}, {', '.join(values)})")

    pipeline.run()
    # The table of the new name gets its rows in the database, and their types with them.
    database.execute("RENAME TABLE edges TO renamed", "INSERT INTO renamed (id) VALUES (-1)")
    pipeline.run()
