"""Partial updates of JSON documents: `binlog_row_value_options=PARTIAL_JSON`.

Source: mysql-server, sql-common/json_diff.cc, Json_diff::write_to_binary and apply_json_diff;
json_path.cc, Json_path_leg::to_string.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from enum import IntEnum
from typing import TypeAlias

from airflow_provider_binlog.binlog.buffer import Buffer
from airflow_provider_binlog.binlog.json.document import (
    DEPTH_MAX,
    Node,
    Value,
    encode,
    open_value,
    read,
)
from airflow_provider_binlog.errors import FormatError, error_context


class DiffOperation(IntEnum):
    """The operation of a diff at its path."""

    REPLACE = 0
    """Put another value in the place of the one there."""
    INSERT = 1
    """Add a member to an object; in an array, an element before the one there."""
    REMOVE = 2
    """Take the member or element out."""


Leg: TypeAlias = "bytes | int"
"""A key of an object; or an index in an array, below zero counted from its end."""

_LEG = re.compile(
    r"""
    \[ (?P<index> [0-9]{1,10} ) \]
    | \[ last (?: -(?P<from_last> [0-9]{1,10} ) )? \]
    | \. (?P<quoted> "(?: [^"\\] | \\. )*" )
    | \. (?P<plain> [^."\[\]*]+ )
    """,
    re.VERBOSE | re.DOTALL,
)


def apply_diffs(document: bytes, diffs: bytes) -> bytes:
    """Return the document after some diffs, each for the document that those before it made.

        diff: | op | lenenc n | path, n bytes | unless REMOVE: lenenc n | binary JSON, n bytes |

    Raises:
        FormatError: The diffs break the format, or do not fit the document.
    """
    if not diffs:
        return document
    root: Node = read(document)
    buffer = Buffer(diffs)
    while buffer.remaining:
        root = _apply(root, buffer)
    return encode(root)


def _apply(root: Node, buffer: Buffer) -> Node:
    code = buffer.uint(1)
    if code > DiffOperation.REMOVE:
        raise FormatError("not an operation of a JSON diff", operation=code)
    operation = DiffOperation(code)
    path = bytes(buffer.lenenc_bytes())
    removes = operation is DiffOperation.REMOVE
    new = None if removes else read(bytes(buffer.lenenc_bytes()))
    with error_context(operation=operation.name, path=path.decode(errors="replace")):
        return _change(root, parse_path(path), operation, new)


def _change(root: Node, path: Sequence[Leg], operation: DiffOperation, new: Value | None) -> Node:
    """Return the document with the value at one path changed, opened containers in place."""
    root = parent = _open(root)
    for leg in path[:-1]:
        parent = _descend(parent, leg)
    leg = path[-1]
    if isinstance(parent, dict) and isinstance(leg, bytes):
        _change_member(parent, leg, operation, new)
    elif isinstance(parent, list) and isinstance(leg, int):
        _change_element(parent, leg, operation, new)
    else:
        raise FormatError("the path of a JSON diff does not exist in its document")
    return root


def _open(node: Node) -> Node:
    return open_value(node) if isinstance(node, Value) else node


def _descend(parent: Node, leg: Leg) -> Node:
    """Return the value one leg further, opened in place."""
    try:
        node: Node = parent[leg]  # type: ignore[index]  # what does not fit raises
    except (LookupError, TypeError) as error:
        raise FormatError("the path of a JSON diff does not exist in its document") from error
    parent[leg] = opened = _open(node)  # type: ignore[index]  # as above
    return opened


def _change_member(
    parent: dict[bytes, Node], key: bytes, operation: DiffOperation, new: Value | None
) -> None:
    if (operation is DiffOperation.INSERT) is (key in parent):
        raise FormatError("a JSON diff does not fit the members of its object")
    if new is None:
        del parent[key]
    else:
        parent[key] = new


def _change_element(
    parent: list[Node], index: int, operation: DiffOperation, new: Value | None
) -> None:
    if operation is DiffOperation.INSERT and new is not None:
        parent.insert(index, new)  # after the last element where the index is too large
        return
    if not -len(parent) <= index < len(parent):
        raise FormatError("a JSON diff does not fit the elements of its array")
    if new is None:
        del parent[index]
    else:
        parent[index] = new


def parse_path(path: bytes) -> tuple[Leg, ...]:
    """Return the legs of a path as in SQL: `$.b[1]`, `$."a b".c`.

    Raises:
        FormatError: The path leads to no single place below the root.
    """
    try:
        text = path.decode()
        legs = tuple(_legs(text))
    except ValueError as error:
        raise FormatError("not a path in a JSON document") from error
    if not 1 <= len(legs) <= DEPTH_MAX:
        raise FormatError("not a path in a JSON document")
    return legs


def _legs(text: str) -> Iterator[Leg]:
    """Yield the legs; a ValueError says that there is something else."""
    at = 1
    if not text.startswith("$"):
        raise ValueError(text)
    while at < len(text):
        match = _LEG.match(text, at)
        if match is None:
            raise ValueError(text)
        at = match.end()
        if match["index"]:
            yield int(match["index"])
        elif match["quoted"]:
            yield str(json.loads(match["quoted"], strict=False)).encode()
        elif match["plain"]:
            yield match["plain"].encode()
        else:
            yield -1 - int(match["from_last"] or 0)
