"""The decoders of JSON documents: the one for many at a time and the plain one agree."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from airflow_provider_binlog.binlog.json.diff import apply_diffs
from airflow_provider_binlog.binlog.json.document import encode, to_text
from airflow_provider_binlog.errors import BinlogError
from airflow_provider_binlog.rows.types.json import column as json
from airflow_provider_binlog.rows.values import Memory, Values
from tests.fuzz.targets import Target, Wrong
from tests.reference.json import parse
from tests.support.json_documents import document, opaque
from tests.support.wire import lenenc_bytes

if TYPE_CHECKING:
    from collections.abc import Sequence

_TREE = {"a": [1, 2, {"b": "x" * 90}], 'c "d"': {"e": None}, "n": -1.5, "": [], "big": 2**63}
_TREES = (_TREE, [_TREE, _TREE], [opaque(15, b"\0"), opaque(246, b"\x05\x02\x80\x01\x32")], "é", 1)


def _document(data: bytes) -> None:
    _compare([data] * 2)
    if parse(encode(node := parse(data))) != node:
        raise Wrong("a document that does not survive being written")


def _documents_alike(data: bytes) -> None:
    """Read each half of the data in turns, so often that one structure is looked for."""
    half = len(data) // 2
    _compare([data[:half], data[half:]] * json.FEW_DOCUMENTS)


def _compare(documents: Sequence[bytes]) -> None:
    """Raise what the plain decoder raises; the one for many documents must agree with it."""
    texts: list[list[bytes] | BinlogError] = []
    for read in (_one_by_one, _together):
        try:
            texts.append(read(documents))
        except BinlogError as error:
            texts.append(error)
    plain, together = texts
    if isinstance(plain, BinlogError):
        if not isinstance(together, BinlogError):
            raise Wrong("a text of a document that the plain decoder refuses")
        raise plain
    if plain != together:
        raise Wrong(f"{together!r} is not {plain!r}")


def _one_by_one(documents: Sequence[bytes]) -> list[bytes]:
    return [to_text(each) for each in documents]


def _together(documents: Sequence[bytes]) -> list[bytes]:
    """Return the texts that the decoder for many documents finds."""
    if not all(documents):
        return _one_by_one(documents)
    data, size = b"".join(documents), np.array(list(map(len, documents)))
    memory = Memory(np.frombuffer(data, dtype=np.uint8), len(data))
    found = json._together(Values(memory, np.cumsum(size) - size, size, None))
    return [found.slice(at, at + 1).data.tobytes() for at in range(len(documents))]


def _diffs(data: bytes) -> None:
    size = int.from_bytes(data[:2], "little")
    to_text(apply_diffs(data[2 : 2 + size], data[2 + size :]))


def _documents() -> Sequence[bytes]:
    return [document(tree, large=large, hole=3) for tree in _TREES for large in (False, True)]


def _pairs() -> Sequence[bytes]:
    """Return two documents of one structure and size each time, one after the other."""
    scalars = ([1, "x", None, 0.25], [-7, '"', True, 1e300])
    trees = [
        [{"k": each, "a": [each, {}], "text": "x" * 50} for each in pair]
        for pair in zip(*scalars, strict=True)
    ]
    return [b"".join(map(document, pair)) for pair in trees]


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
    Target("json_documents_alike", _documents_alike, _pairs),
    Target("json_diff", _diffs, _documents_with_diffs),
)
