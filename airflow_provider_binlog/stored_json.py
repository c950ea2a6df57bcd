"""Stored JSON documents: dataclasses with their format, version and digest.

A dataclass is an object with its fields in their order, a tuple an array, an enum its value; a
class with `to_json` and `from_json` decides by itself. Where a value may be of several classes, a
class variable `type` distinguishes them, or else their fields do. What is read is checked.

The last line but one is the digest of all bytes before it: `head -n -2 FILE | sha256sum`. A
document that its store may format again, as Airflow does, has a digest of its values instead.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from enum import Enum
from functools import cache, partial
from operator import attrgetter
from types import NoneType, UnionType
from typing import Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

from airflow_provider_binlog import errors

LEFT_OUT = {"left_out": True}
"""Metadata of a field that is left out where it has its default."""

_DIGEST = "sha256"
_END = re.compile(rb' "sha256": "([0-9a-f]{64})"\n\}')
_END_BYTES = len(' "sha256": ""\n}') + 64

_Value = TypeVar("_Value")


def utc_now() -> str:
    """Return the time as documents have it: ISO 8601, in UTC, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


@dataclass(frozen=True)
class StoredFormat:
    """A kind of stored documents; its name and version are the first fields of each.

    Attributes:
        name: Value of `format`.
        version: Value of `version`; a release reads its own version alone.
        noun: The kind in errors, with its article.
        error: Class of the errors.
        edited: What to do about a document that was edited; of formats with a digest of values.
    """

    name: str
    version: int
    noun: str
    error: type[errors.BinlogError] = errors.ManifestError
    edited: str = "restore it as it was written"

    def encode(self, value: object) -> bytes:
        """Return a dataclass as it is stored, with the digest of its lines."""
        return encode(self._document(value))

    def decode(self, kind: type[_Value], data: bytes | str) -> _Value:
        """Return the value that `encode` was given.

        Raises:
            BinlogError: Of class `error`: the bytes are of no such document, of one that was edited
                or cut, or of one of another version.
        """
        try:
            return self._read(kind, decode(data))
        except errors.MALFORMED as error:
            raise self.error(f"not {self.noun}: {errors.cause_of(error)}") from error

    def encode_values(self, value: object) -> str:
        """Return a dataclass as text, with the digest of its values."""
        document = json.loads(to_text(self._document(value)))
        document["digest"] = digest_of_values(document)
        return json.dumps(document, ensure_ascii=False, indent=1)

    def decode_values(self, kind: type[_Value], text: str) -> _Value:
        """Return the value that `encode_values` was given.

        Raises:
            BinlogError: As `decode`.
        """
        try:
            document = json.loads(text)
            digest = document.pop("digest", None)
            self._check_version(document)
            if digest != digest_of_values(document):
                raise self.error(
                    f"{self.noun} that was edited, since its digest is another one: {self.edited}"
                )
            return self._read(kind, document)
        except errors.MALFORMED as error:
            raise self.error(f"not {self.noun}: {errors.cause_of(error)}") from error

    def _document(self, value: object) -> dict[str, Any]:
        return {"format": self.name, "version": self.version} | _plain(value)

    def _read(self, kind: type[_Value], document: dict[str, Any]) -> _Value:
        self._check_version(document)
        names = document.keys() - {"format", "version"}
        return from_json(kind, {name: document[name] for name in names})

    def _check_version(self, document: Mapping[str, Any]) -> None:
        name, version = document.get("format"), document.get("version")
        if name != self.name:
            raise self.error(f"not {self.noun}", format=name)
        if version != self.version:
            raise self.error(
                f"{self.noun} of another version: read it with the release that wrote it",
                version=version,
                known=self.version,
            )


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a document with the digest of its lines: UTF-8 JSON, keys in their order.

    Each field has a line, and each element of an array that is a field.
    """
    lines = (f" {to_text(name)}: {_lines(field)},\n" for name, field in value.items())
    body = "".join(["{\n", *lines])
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body} "{_DIGEST}": "{digest}"\n}}'.encode()


def _lines(value: Any) -> str:
    if not isinstance(value, tuple | list) or not value:
        return to_text(value)
    elements = ",\n  ".join([to_text(element) for element in value])
    return f"[\n  {elements}\n ]"


def decode(data: bytes | str) -> dict[str, Any]:
    """Return the document that `encode` wrote, without the digest.

    Raises:
        FormatError: It does not end with its digest, or has another one.
        ValueError: It is not JSON.
    """
    stored = data.encode() if isinstance(data, str) else data
    body, end = stored[:-_END_BYTES], _END.fullmatch(stored[-_END_BYTES:])
    if end is None:
        raise errors.FormatError(
            "the file does not end with its digest: it was cut, or formatted again, or something "
            "else wrote it; restore it as it was written"
        )
    computed = hashlib.sha256(body).hexdigest()
    if computed != end[1].decode():
        raise errors.FormatError(
            "the file was edited or damaged after it was written, since its digest is another one: "
            "restore it as it was written",
            sha256=end[1].decode(),
            found=computed,
        )
    value: dict[str, Any] = json.loads(stored)
    del value[_DIGEST]
    return value


def digest_of_values(value: Mapping[str, Any]) -> str:
    """Return a digest of a document's values, whatever their order and format."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a field with another name in JSON."""
    return {"name": name}


def _plain(value: Any) -> dict[str, Any]:
    """Return a dataclass as an object of JSON, but for the values of its fields."""
    kind: Any = type(value)
    if hasattr(kind, "to_json"):
        plain: dict[str, Any] = value.to_json()
        return plain
    record = _record(kind)
    plain = {} if record.tag is None else {"type": record.tag}
    plain |= zip(record.fields, record.values(value), strict=True)
    for name, default in record.left_out.items():
        if plain[name] == default:
            del plain[name]
    return plain


to_text = json.JSONEncoder(ensure_ascii=False, check_circular=False, default=_plain).encode
"""Returns the JSON that `from_json` reads, on one line."""


def from_json(kind: type[_Value], value: Any) -> _Value:
    """Return the value of a type from its JSON form.

    Raises:
        MALFORMED: It is of another type; see `errors.MALFORMED`.
    """
    of: Any = kind
    read: _Value = _reader(of)(value)
    return read


class _Record(NamedTuple):
    """Compiled form of a dataclass.

    Attributes:
        kind: The class.
        tag: Its class variable `type`; None if it has none.
        fields: By name in JSON, in their order: attribute, and the function that reads its value.
        left_out: Defaults of the fields that are left out, by name in JSON.
        values: Returns the values of all fields of an object.
    """

    kind: Any
    tag: str | None
    fields: dict[str, tuple[str, Callable[[Any], Any]]]
    left_out: dict[str, Any]
    values: Callable[[Any], Iterable[Any]]

    def is_of(self, value: Any) -> bool:
        given = value.keys()
        if self.tag is None:
            return bool(given == self.fields.keys())
        return bool(value.get("type") == self.tag)

    def read(self, value: Any) -> Any:
        given = value.keys() - ({"type"} if self.tag else ())
        if not self.fields.keys() - self.left_out <= given <= self.fields.keys():
            raise TypeError(f"not the fields of {self.kind.__name__}: {sorted(value)}")
        own = ((*self.fields[name], value[name]) for name in given)
        return self.kind(**{attribute: read(own_value) for attribute, read, own_value in own})


@cache
def _record(kind: Any) -> _Record:
    hints = get_type_hints(kind)
    named = {field.metadata.get("name", field.name): field for field in fields(kind)}
    own = {name: (field.name, _reader(hints[field.name])) for name, field in named.items()}
    left_out = {n: field.default for n, field in named.items() if "left_out" in field.metadata}
    attributes = [field.name for field in named.values()]
    # Of a single attribute, `attrgetter` returns no tuple.
    get = (
        attrgetter(*attributes)
        if len(attributes) > 1
        else lambda value: [getattr(value, name) for name in attributes]
    )
    # The class variable, not the slot of a field.
    tag = None if "type" in named else getattr(kind, "type", None)
    return _Record(kind, tag, own, left_out, get)


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    args = get_args(kind)
    if isinstance(kind, UnionType):
        return partial(_read_one, args)
    origin = get_origin(kind)
    if origin in (tuple, Sequence):
        return partial(_read_tuple, args if origin is tuple else (*args, ...))
    if origin is dict:
        return partial(_read_dict, args[1])
    if hasattr(kind, "from_json"):
        own: Callable[[Any], Any] = kind.from_json
        return own
    if hasattr(kind, "__dataclass_fields__"):
        return _record(kind).read
    return kind if issubclass(kind, Enum) else partial(_read_plain, kind)


def _read_one(kinds: tuple[Any, ...], value: Any) -> Any:
    others = [kind for kind in kinds if kind is not NoneType]
    if value is None and len(others) < len(kinds):
        return None
    for kind in others:
        if len(others) == 1 or _record(kind).is_of(value):
            return _reader(kind)(value)
    raise TypeError(f"of no type that is known here: {value!r:.80}")


def _read_tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    _read_plain(list, value)
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    return tuple(_reader(kind)(element) for kind, element in zip(kinds, value, strict=True))


def _read_dict(kind: Any, value: Any) -> dict[str, Any]:
    return {name: _reader(kind)(element) for name, element in value.items()}


def _read_plain(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"not of type {kind.__name__}: {value!r:.80}")
    return value
