"""The matrix of faults: every row has a test, and the docs name what is run."""

from __future__ import annotations

import re

from tests.faults.__main__ import PAGE, with_table
from tests.faults.matrix import ROWS, SERVERS, find_cells, table


def test_every_row_has_a_test() -> None:
    assert set(ROWS) == {cell.row for cell in find_cells()}


def test_the_page_has_the_table() -> None:
    page = PAGE.read_text(encoding="utf-8")

    assert page == with_table(page, find_cells()), "run python -m tests.faults --write"


def test_the_columns_of_a_row_are_those_of_its_tests() -> None:
    cells = [cell for cell in find_cells() if cell.row == "id-taken"]

    (line,) = [line for line in table(cells).splitlines() if ROWS["id-taken"].title in line]
    servers = "MariaDB 10.11, MariaDB 11.8"
    assert re.split(r" *\| *", line)[3:6] == [servers, "", "file"]
    assert all(f"`{cell.test.partition('::')[2]}`" in line for cell in cells)
    assert set(SERVERS) >= {word for cell in cells for word in cell.columns[0]}
