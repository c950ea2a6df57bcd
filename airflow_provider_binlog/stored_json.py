"""Stored JSON documents that carry their own digest: what was edited or cut since is refused.

    {
     "format": "airflow-provider-binlog/manifest",
     …
     "sha256": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"
    }

The last line but one is the digest of all lines before it, as they are stored, line feeds included:
`head -n -2 FILE | sha256sum`. So a reader in any language compares bytes, and needs no canonical
form of JSON. Where others store the document, and may format it again, a digest of its values
does instead: `digest_of_values`.
"""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from airflow_provider_binlog.errors import MALFORMED, FormatError, ManifestError, cause_of
from airflow_provider_binlog.json_form import fields_of, from_json, to_text

if TYPE_CHECKING:
    from collections.abc import Mapping

_Value = TypeVar("_Value")

DIGEST = "sha256"
"""The field with the digest."""

_END = re.compile(rb' "sha256": "([0-9a-f]{64})"\n\}')
_END_BYTES = len(' "sha256": ""\n}') + 64


@dataclass(frozen=True)
class StoredFormat:
    """A kind of stored documents; its name and version are the first fields of each.

    Attributes:
        name: What `format` says.
        version: What `version` says; a release reads its own version alone.
        noun: What one is called in errors, with its article.
    """

    name: str
    version: int
    noun: str

    def encode(self, value: object) -> bytes:
        """Return a dataclass as it is stored, with its digest."""
        return encode({"format": self.name, "version": self.version, **fields_of(value)})

    def decode(self, kind: type[_Value], data: bytes | str) -> _Value:
        """Return what `encode` was given.

        Raises:
            ManifestError: The bytes are of no such document, of one that was edited or cut, or of
                one of another version.
        """
        try:
            value = decode(data)
            name, version = value.pop("format", None), value.pop("version", None)
            if name != self.name:
                raise ManifestError(f"not {self.noun}", format=name)
            if version != self.version:
                raise ManifestError(
                    f"{self.noun} of another version: read it with the release that wrote it",
                    version=version,
                    known=self.version,
                )
            return from_json(kind, value)
        except MALFORMED as error:
            raise ManifestError(f"not {self.noun}: {cause_of(error)}") from error


def encode(value: Mapping[str, Any]) -> bytes:
    """Return a document with its digest: UTF-8 JSON, keys in their order.

    Its fields have lines of their own, as has every element of an array that is a field.
    """
    shared: dict[int, str] = {}
    fields = (
        f" {to_text(name, shared)}: {_lines(each, shared)},\n" for name, each in value.items()
    )
    body = "".join(["{\n", *fields])
    digest = hashlib.sha256(body.encode()).hexdigest()
    return f'{body} "{DIGEST}": "{digest}"\n}}'.encode()


def _lines(value: Any, shared: dict[int, str]) -> str:
    if not isinstance(value, tuple | list) or not value:
        return to_text(value, shared)
    elements = ",\n  ".join([to_text(each, shared) for each in value])
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
        raise FormatError(
            "the file does not end with its digest: it was cut, or formatted again, or something "
            "else wrote it; restore it as it was written"
        )
    found = hashlib.sha256(body).hexdigest()
    if found != end[1].decode():
        raise FormatError(
            "the file was edited or damaged after it was written, since its digest is another one: "
            "restore it as it was written",
            sha256=end[1].decode(),
            found=found,
        )
    value: dict[str, Any] = json.loads(stored)
    del value[DIGEST]
    return value


def digest_of_values(value: Mapping[str, Any]) -> str:
    """Return a digest of a document's values, whatever their order and format."""
    text = json.dumps(value, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
