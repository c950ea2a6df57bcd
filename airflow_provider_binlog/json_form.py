"""The JSON form of stored values, by the types of their fields, and back.

A dataclass is an object with its fields in their order, a tuple an array, an enum its value; a
class that has `to_json` and `from_json` decides by itself. Where a value may be of several classes,
a class variable `type` distinguishes them, or else their fields do.

What is read is checked: no field is missing, unknown or of another type.
"""

from __future__ import annotations

from dataclasses import fields, is_dataclass
from enum import Enum
from functools import cache, partial
from types import NoneType, UnionType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, get_args, get_origin, get_type_hints

if TYPE_CHECKING:
    from collections.abc import Callable

LEFT_OUT = {"left_out": True}
"""Metadata of a field that is left out where it has its default."""

# Most values are of these.
_PLAIN = frozenset({str, int, bool, NoneType})

_Value = TypeVar("_Value")


def stored_as(name: str) -> dict[str, str]:
    """Return the metadata of a field that has another name in JSON."""
    return {"name": name}


def to_json(value: Any) -> Any:
    """Return plain values that `from_json` reads back."""
    if type(value) in _PLAIN:
        return value
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, tuple):
        return [to_json(each) for each in value]
    if hasattr(value, "to_json"):
        return value.to_json()
    if not is_dataclass(value):
        return value
    kind: Any = type(value)
    record = _record(kind)
    plain = {} if record.tag is None else {"type": record.tag}
    for name, (attribute, _) in record.fields.items():
        own = getattr(value, attribute)
        if name in record.needed or own != getattr(kind, attribute):
            plain[name] = own if type(own) in _PLAIN else to_json(own)
    return plain


def from_json(kind: type[_Value], value: Any) -> _Value:
    """Return the value of a type that `to_json` wrote.

    Raises:
        MALFORMED: It is none; see `errors.MALFORMED`.
    """
    of: Any = kind
    found: _Value = _reader(of)(value)
    return found


class _Record(NamedTuple):
    """A dataclass.

    Attributes:
        kind: The class.
        tag: Its class variable `type`; None if it has none.
        fields: By their names in JSON: attribute, and what reads its value.
        needed: Names in JSON of those that are never left out.
    """

    kind: Any
    tag: str | None
    fields: dict[str, tuple[str, Callable[[Any], Any]]]
    needed: set[str]

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
    hints, needed, own = get_type_hints(kind), set(), {}
    for each in fields(kind):
        name = each.metadata.get("name", each.name)
        own[name] = each.name, _reader(hints[each.name])
        if "left_out" not in each.metadata:
            needed.add(name)
    return _Record(kind, getattr(kind, "type", None), own, needed)


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
