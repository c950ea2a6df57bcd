"""Marks: ordered as the log, and the same after a round trip through text."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.spark.target.mark import NOTHING, Mark

IN_ORDER = [NOTHING, Mark(0, 1), Mark(7), Mark(7, 1), Mark(7, 12), Mark(8), Mark(10)]


def test_marks_are_ordered_as_the_log() -> None:
    shuffled = [*IN_ORDER[3:], *IN_ORDER[:3]]

    assert sorted(shuffled) == IN_ORDER


@pytest.mark.parametrize("mark", IN_ORDER)
def test_text_is_parsed_again(mark: Mark) -> None:
    assert Mark.parse(str(mark)) == mark


@pytest.mark.parametrize("text", ["", "-1", "7.", ".7", "7.1.1", " 7", "\u0667", "x", "1e3"])
def test_other_text_is_refused(text: str) -> None:
    with pytest.raises(FormatError, match="applied mark"):
        Mark.parse(text)
