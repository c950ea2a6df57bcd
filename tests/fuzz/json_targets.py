"""The decoders of JSON documents: the one for many at a time and the plain one agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.json.diff import apply_diffs
from airflow_provider_binlog.binlog.json.document import encode, to_text
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.rows.memory import Memory
from airflow_provider_binlog.rows.types.json import column as json
from airflow_provider_binlog.rows.values import Values
from tests.fuzz.targets import Target, Wrong
from tests.reference.json import parse
from tests.support.json_documents import document, opaque
from tests.support.wire import lenenc_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_TREE = {"a": [1, 2, {"b": "x" * 90}], 'c "d"': {"e": None}, "n": -1.5, "": [], "big": 2**63}
_TREES = (_TREE, [_TREE, _TREE], [opaque(15, b"\0"), opaque(246, b"\x05\x02\x80\x01\x32")], "é", 1)


def _document(data: bytes) -> None:
    texts: list[bytes | BinlogError] = []
    for read in (to_text, _together):
        try:
            texts.append(read(data))
        except BinlogError as error:
            texts.append(error)
    plain, together = texts
    if isinstance(plain, BinlogError):
        if not isinstance(together, BinlogError):
            raise Wrong("a text of a document that the plain decoder refuses")
        raise plain
    if plain != together:
        raise Wrong(f"{together!r} is not {plain!r}")
    if parse(encode(node := parse(data))) != node:
        raise Wrong("a document that does not survive being written")


def _together(data: bytes) -> bytes:
    """Return the text that the decoder for many documents finds."""
    if not data:
        return b"null"
    size = np.array([len(data)] * 2, dtype=np.int64)
    memory = Memory(np.frombuffer(data * 2, dtype=np.uint8), 2 * len(data))
    values = Values(memory, np.array([0, len(data)]), size, None)
    found = json._together(values)
    first, second = (found.slice(at, at + 1).data.tobytes() for at in (0, 1))
    if first != second:
        raise Wrong("two texts of one document")
    return first


def _diffs(data: bytes) -> None:
    size = int.from_bytes(data[:2], "little")
    to_text(apply_diffs(data[2 : 2 + size], data[2 + size :]))


def _documents() -> Sequence[bytes]:
    return [document(tree, large=large, hole=3) for tree in _TREES for large in (False, True)]


def _diff(operation: int, path: str, *value: object) -> bytes:
    new = b"".join(lenenc_bytes(document(each)) for each in value)
    return bytes([operation]) + lenenc_bytes(path.encode()) + new


def _documents_with_diffs() -> Sequence[bytes]:
    diffs = [
        _diff(0, "$.n", [1]) + _diff(1, "$.n[last]", "x") + _diff(2, "$.a[0]"),
        _diff(1, '$."c \\"d\\""."\\u0001"', {"k": 1}),
        _diff(2, "$.a[last-1]"),
    ]
    whole = document(_TREE)
    return [len(whole).to_bytes(2, "little") + whole + each for each in diffs]


JSON_TARGETS = (
    Target("json_document", _document, _documents),
    Target("json_diff", _diffs, _documents_with_diffs),
)
