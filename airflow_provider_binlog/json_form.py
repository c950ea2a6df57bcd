"""The JSON form of stored values, by the types of their fields, and back.

A dataclass is an object with its fields in their order, a tuple an array, an enum its value; a
class that has `to_json` and `from_json` decides by itself. Where a value may be of several classes,
a class variable `type` distinguishes them, or else their fields do.

What is read is checked: no field is missing, unknown or of another type.
"""

from __future__ import annotations

import json
from dataclasses import fields
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

LEFT_OUT = {"left_out": True}
"""Metadata of a field that is left out where it has its default."""

SHARED = {"shared": True}
"""Metadata of a field whose value many objects may share: it is then printed once."""

_ENCODER = json.JSONEncoder(ensure_ascii=False)

# Of the classes that most values are of.
_PLAIN: dict[type, Callable[[Any], str]] = {
    str: _ENCODER.encode,
    int: int.__repr__,
    bool: {True: "true", False: "false"}.__getitem__,
    NoneType: lambda _: "null",
}

_Value = TypeVar("_Value")


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in JSON."""
    return {"name": name}


def fields_of(value: Any) -> dict[str, Any]:
    """Return the values that the JSON form of a dataclass has, by their names there."""
    kind: Any = type(value)
    printed = _record(kind).printed
    return {each.name: getattr(value, each.attribute) for each in printed if each.is_in(value)}


def to_text(value: Any, shared: dict[int, str]) -> str:
    """Return the JSON that `from_json` reads back, as `json.dumps` prints it, all on one line.

    Args:
        value: Of dataclasses, or plain.
        shared: What is printed of values that many objects share, by their identity.
    """
    kind: Any = type(value)
    plain = _PLAIN.get(kind)
    return _printer(kind)(value, shared) if plain is None else plain(value)


@cache
def _printer(kind: Any) -> Callable[[Any, dict[int, str]], str]:
    """Return what prints values of a class."""
    if issubclass(kind, Enum):
        return lambda value, shared: to_text(value.value, shared)
    if issubclass(kind, tuple | list):
        return _print_array
    if hasattr(kind, "to_json"):
        return lambda value, shared: to_text(value.to_json(), shared)
    if issubclass(kind, dict):
        return _print_object
    if hasattr(kind, "__dataclass_fields__"):
        return _record(kind).print
    return lambda value, _: _ENCODER.encode(value)


def _print_array(value: Any, shared: dict[int, str]) -> str:
    return f"[{', '.join([to_text(each, shared) for each in value])}]"


def _print_object(value: Any, shared: dict[int, str]) -> str:
    own = [f"{_ENCODER.encode(name)}: {to_text(each, shared)}" for name, each in value.items()]
    return f"{{{', '.join(own)}}}"


def from_json(kind: type[_Value], value: Any) -> _Value:
    """Return the value of a type that `to_text` printed.

    Raises:
        MALFORMED: It is none; see `errors.MALFORMED`.
    """
    of: Any = kind
    found: _Value = _reader(of)(value)
    return found


_NEEDED = object()


class _Printed(NamedTuple):
    """How a field is printed: its name in JSON, its attribute, the default that is left out."""

    name: str
    attribute: str
    default: Any
    is_shared: bool

    def is_in(self, value: Any) -> bool:
        return self.default is _NEEDED or getattr(value, self.attribute) != self.default


class _Record(NamedTuple):
    """A dataclass.

    Attributes:
        kind: The class.
        tag: Its class variable `type`; None if it has none.
        fields: By their names in JSON: attribute, and what reads its value.
        needed: Names in JSON of those that are never left out.
        printed: How each is printed.
    """

    kind: Any
    tag: str | None
    fields: dict[str, tuple[str, Callable[[Any], Any]]]
    needed: set[str]
    printed: tuple[_Printed, ...]

    def print(self, value: Any, shared: dict[int, str]) -> str:
        texts = [] if self.tag is None else [f'"type": "{self.tag}"']
        for name, attribute, default, is_shared in self.printed:
            own = getattr(value, attribute)
            if default is not _NEEDED and own == default:
                continue
            text = shared.get(id(own)) if is_shared else None
            if text is None:
                plain = _PLAIN.get(type(own))
                text = to_text(own, shared) if plain is None else plain(own)
                if is_shared:
                    shared[id(own)] = text
            texts.append(f'"{name}": {text}')
        return f"{{{', '.join(texts)}}}"

    def is_of(self, value: Any) -> bool:
        given = value.keys()
        return bool(given == self.fields.keys() if self.tag is None else value["type"] == self.tag)

    def read(self, value: Any) -> Any:
        given = value.keys() - ({"type"} if self.tag else ())
        if not self.needed <= given <= self.fields.keys():
            raise TypeError(f"not the fields of {self.kind.__name__}: {sorted(value)}")
        own = ((*self.fields[name], value[name]) for name in given)
        return self.kind(**{attribute: read(each) for attribute, read, each in own})


@cache
def _record(kind: Any) -> _Record:
    hints, own, printed = get_type_hints(kind), {}, []
    for each in fields(kind):
        name = each.metadata.get("name", each.name)
        own[name] = each.name, _reader(hints[each.name])
        default = each.default if "left_out" in each.metadata else _NEEDED
        printed.append(_Printed(name, each.name, default, "shared" in each.metadata))
    needed = {each.name for each in printed if each.default is _NEEDED}
    return _Record(kind, getattr(kind, "type", None), own, needed, tuple(printed))


@cache
def _reader(kind: Any) -> Callable[[Any], Any]:
    args = get_args(kind)
    if isinstance(kind, UnionType):
        return partial(_read_one, args)
    if get_origin(kind) is tuple:
        return partial(_read_tuple, args)
    if get_origin(kind) is dict:
        return partial(_read_dict, args[1])
    if hasattr(kind, "from_json"):
        own: Callable[[Any], Any] = kind.from_json
        return own
    if hasattr(kind, "__dataclass_fields__"):
        return _record(kind).read
    return kind if issubclass(kind, Enum) else partial(_read_plain, kind)


def _read_one(kinds: tuple[Any, ...], value: Any) -> Any:
    others = [each for each in kinds if each is not NoneType]
    if value is None and len(others) < len(kinds):
        return None
    for each in others:
        if len(others) == 1 or _record(each).is_of(value):
            return _reader(each)(value)
    raise TypeError(f"of no type that is known here: {value!r:.80}")


def _read_tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    _read_plain(list, value)
    if kinds[-1] is Ellipsis:
        kinds = kinds[:1] * len(value)
    return tuple(_reader(kind)(each) for kind, each in zip(kinds, value, strict=True))


def _read_dict(kind: Any, value: Any) -> dict[str, Any]:
    return {name: _reader(kind)(each) for name, each in value.items()}


def _read_plain(kind: Any, value: Any) -> Any:
    if type(value) is not kind:
        raise TypeError(f"not of type {kind.__name__}: {value!r:.80}")
    return value
