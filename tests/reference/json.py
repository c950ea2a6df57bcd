"""A binary JSON document with every container opened."""

from __future__ import annotations

from airflow_provider_binlog.binlog.json.document import DEPTH_MAX, Node, Value, open_value, read
from airflow_provider_binlog.errors import FormatError


def parse(document: bytes | memoryview) -> Node:
    """Return a document with every container opened.

    Raises:
        FormatError: The document breaks the format.
    """
    return _open_all(read(document), 1)


def _open_all(value: Value, depth: int) -> Node:
    opened = open_value(value)
    if isinstance(opened, Value):
        return opened
    if depth > DEPTH_MAX:
        raise FormatError("a JSON document is too deep", depth_max=DEPTH_MAX)
    if isinstance(opened, list):
        return [_open_all(each, depth + 1) for each in opened if isinstance(each, Value)]
    return {
        key: _open_all(each, depth + 1) for key, each in opened.items() if isinstance(each, Value)
    }
