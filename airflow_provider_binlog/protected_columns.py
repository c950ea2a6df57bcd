"""Protected columns: which ones the options exclude or hash, and what is staged of their fields.

The options name a column by its name. That name is the *origin* of the field from then on: whatever
the column or its table is called later, it is excluded, or hashed, as long as the options name its
origin or the name that it has. A column that is excluded by one name and hashed by another one is
excluded. Nothing of a protected column's values is in its field: no default, no value of an ENUM.

What is hashed is the value as SELECT prints it, in UTF-8, without what depends on the digits of its
type: `1.50` of a DECIMAL is hashed as `1.5`, a time without the zeros at the end of its fraction.
TIMESTAMP is in UTC, FLOAT and DOUBLE have the fewest digits that distinguish them, BIT is a number;
bytes are hashed as they are.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any

from airflow_provider_binlog.errors import ConfigurationError
from airflow_provider_binlog.names import fold_name
from airflow_provider_binlog.schema import (
    NULL,
    Default,
    Field,
    Origin,
    TableName,
    UnknownDefault,
)
from airflow_provider_binlog.table_options import ColumnOptions

_BLOCK_BYTES = 64
_INNER, _OUTER = (bytes(byte ^ pad for byte in range(256)) for pad in (0x36, 0x5C))
_ID_DIGITS = 12
_ID_OF = b"airflow-provider-binlog"

# As gh-ost and pt-online-schema-change name the table that takes the place of another one, and
# that one afterwards.
_WORKING_TABLE = re.compile(r"_+(.+)_(?:gho|del|new|old)", re.DOTALL)


@dataclass(frozen=True)
class HashSecret:
    """The secret with which values are hashed."""

    text: str = field(repr=False)

    @property
    def id(self) -> str:
        """The hash of a text that says which package hashes: it identifies the secret."""
        return self.digests([_ID_OF])[0][:_ID_DIGITS]

    def digests(self, values: Iterable[bytes]) -> list[str]:
        """Return the HMAC-SHA-256 of each value, 64 hex digits."""
        # `hmac` takes twice the time, because it computes what is the same for all of them again.
        key = self.text.encode()
        if len(key) > _BLOCK_BYTES:
            key = hashlib.sha256(key).digest()
        key = key.ljust(_BLOCK_BYTES, b"\0")
        inner = hashlib.sha256(key.translate(_INNER)).copy
        outer = hashlib.sha256(key.translate(_OUTER)).copy
        digests = []
        for value in values:
            inside, outside = inner(), outer()
            inside.update(value)
            outside.update(inside.digest())
            digests.append(outside.hexdigest())
        return digests


def find_misspelled(
    options: Iterable[ColumnOptions], table: TableName, fields: Iterable[Field]
) -> list[str]:
    """Return the columns that options of this table alone name, and that it does not have."""
    there = {fold_name(name) for own in fields for name in (own.name, *(own.origin or ())[2:])}
    named = [option for option in options if option.table == table]
    names = dict.fromkeys(name for own in named for name in (*own.exclude, *own.hash))
    return [name for name in names if fold_name(name) not in there]


def find_secret(text: str) -> HashSecret | None:
    """Return the secret of a connection; None where it has none."""
    return HashSecret(text) if text else None


@dataclass(frozen=True)
class _Names:
    """The protected columns of a table, by folded names."""

    excluded: frozenset[str]
    hashed: frozenset[str]


@dataclass(frozen=True)
class ColumnRules:
    """The columns of tables that are excluded or hashed.

    Raises:
        ConfigurationError: Columns are to be hashed, and there is no secret.
    """

    options: tuple[ColumnOptions, ...] = ()
    secret: HashSecret | None = None

    def __post_init__(self) -> None:
        hashing = [own.tables for own in self.options if own.hash]
        if hashing and self.secret is None:
            raise ConfigurationError(
                "hash_columns takes a secret: set `hash_secret` in the extra of the source's "
                "connection, the same for all sources whose hashes are to be compared",
                tables=", ".join(hashing),
            )

    @property
    def deciding(self) -> list[Any]:
        """Value that parts depend on: equal for equal rules, as JSON."""
        options = [[own.tables, own.exclude, own.hash] for own in self.options]
        return [options, self.secret_id]

    @property
    def secret_id(self) -> str | None:
        """Identifies the secret; None where nothing is hashed."""
        return None if self.secret is None else self.secret.id

    def names(self, table: TableName) -> dict[str, bool]:
        """Return the columns of a table that they name, by folded names: whether excluded."""
        names = _names(self.options, table)
        return dict.fromkeys(names.hashed, False) | dict.fromkeys(names.excluded, True)

    def concern(self, table: TableName) -> bool:
        """Whether they name any column of a table."""
        return bool(self.names(table))

    def excluded_names(self, table: TableName, known: Iterable[Field] = ()) -> frozenset[str]:
        """Return the folded names of a table's excluded columns, as far as they are known."""
        sticky = (own for own in known if own.excluded and self._excludes(own.origin))
        return _names(self.options, table).excluded | {fold_name(own.name) for own in sticky}

    def protect(
        self, table: TableName, shown: Sequence[Field], known: Sequence[Field]
    ) -> tuple[Field, ...]:
        """Return the fields that rows or information_schema show, the protected ones as such.

        `known` are those from before, which may have other names; without any, names decide.

        Raises:
            ConfigurationError: A protected column is not there any more, another one is new, and it
                may be the same one; or no column is left.
        """
        if not self.concern(table) and not any(own.origin for own in known):
            return tuple(shown)
        before = {fold_name(own.name): own for own in known}
        fields = tuple(self._protect(table, own, before.get(fold_name(own.name))) for own in shown)
        names = {fold_name(own.name) for own in fields}
        lost = [
            own.name
            for own in known
            if fold_name(own.name) not in names and self._find(_origins(table, own))
        ]
        new = [
            own.name for own in fields if own.origin is None and fold_name(own.name) not in before
        ]
        if all(own.excluded for own in fields):
            raise ConfigurationError(
                "all columns of a table are excluded: leave the table out",
                table=".".join(table),
                column=fields[0].name,
            )
        if known and lost and new:
            raise ConfigurationError(
                "a protected column is not in the table any more, and a column is new which may be "
                "the same one, since no staged statement says otherwise: stage the log up to that "
                "statement first; or name the new column in exclude_columns or hash_columns, or do "
                "not name the previous one any more",
                table=".".join(table),
                column=lost[0],
                new=", ".join(new),
            )
        return fields

    def _protect(self, table: TableName, shown: Field, known: Field | None) -> Field:
        origins = [(*table, shown.name)] if known is None else _origins(table, known)
        return self._staged(shown, None, self._find(origins))

    def follow(
        self,
        table: TableName,
        before: Sequence[Field],
        after: Sequence[Field],
        names: Mapping[int, Collection[str]],
    ) -> tuple[Field, ...]:
        """Return the fields of a table after a statement, the protected ones as such.

        Its `before` are as this returned them, or none; `names` are other names of fields than
        those before and after it, by their ids.
        """
        marked = any(own.origin for own in chain(before, after))
        if not marked and not self.concern(table):
            return tuple(after)
        old = {own.id: own for own in before}
        fields = []
        for own in after:
            known = old.get(own.id)
            origins = _origins(table, own)
            if known is not None:
                origins += _origins(table, known)
            origins += [(*table, name) for name in names.get(own.id, ())]
            fields.append(self._staged(own, known, self._find(origins)))
        return tuple(fields)

    def _find(self, origins: Iterable[Origin]) -> tuple[Origin, bool] | None:
        """Return the first origin that is excluded, and True; or else hashed, and False."""
        hashed = None
        for origin in origins:
            if self._excludes(origin):
                return origin, True
            if hashed is None and fold_name(origin[2]) in self._names_at(origin).hashed:
                hashed = origin, False
        return hashed

    def _excludes(self, origin: Origin | None) -> bool:
        return origin is not None and fold_name(origin[2]) in self._names_at(origin).excluded

    def _names_at(self, origin: Origin) -> _Names:
        return _names(self.options, origin[:2])

    def _staged(self, own: Field, known: Field | None, found: tuple[Origin, bool] | None) -> Field:
        """Return a field as it is staged.

        Its defaults are those of the column, or those that the field had when it was `known`.
        """
        if found is None:
            return own if own.origin is None else _unprotected(own)
        origin, is_excluded = found
        if known is None and own.hashed is not None:
            known = own  # of CREATE TABLE ... LIKE
        shown = replace(own, origin=origin, mysql_type=_without_values(own.mysql_type))
        if is_excluded or self.secret is None:
            return replace(shown, hashed=None, initial_default=None, write_default=None)
        initial, write = own.initial_default, own.write_default
        if known is None or known.hashed is None or initial != known.initial_default:
            initial = self._hash(own, initial) or (None if initial is None else _UNKNOWN)
        elif known.hashed != self.secret.id and initial not in (None, NULL):
            initial = _UNKNOWN
        if known is None or known.hashed is None or write != known.write_default:
            write = self._hash(own, write)
        elif known.hashed != self.secret.id and write != NULL:
            write = None
        return replace(
            shown,
            hashed=self.secret.id,
            arrow_type=None if own.arrow_type is None else HASH_TYPE,
            initial_default=initial,
            write_default=write,
        )

    def _hash(self, own: Field, default: Default | UnknownDefault | None) -> Default | None:
        """Return a default as it is staged; None where that is not known."""
        if not isinstance(default, Default) or default.value is None or self.secret is None:
            return default if default == NULL else None
        value = _bytes_of_default(own.mysql_type, default.value)
        return None if value is None else Default(self.secret.digests([value])[0])


NO_RULES = ColumnRules()

HASH_TYPE = "string"
"""The Arrow type of hashes."""

_UNKNOWN = UnknownDefault("the column is hashed, and the value is not certain")

_VALUES = re.compile(r"(enum|set)\(.*", re.DOTALL)
_BYTES = frozenset({"binary", "varbinary", "tinyblob", "blob", "mediumblob", "longblob"})


def _origins(table: TableName, own: Field) -> list[Origin]:
    return [*([] if own.origin is None else [own.origin]), (*table, own.name)]


def _unprotected(own: Field) -> Field:
    """Return a field that the options do not name any more: rows have to show its type."""
    known = own.initial_default in (None, NULL)
    return replace(
        own,
        origin=None,
        hashed=None,
        arrow_type=None,
        initial_default=own.initial_default if known else _UNKNOWN,
        write_default=None,
    )


def _without_values(mysql_type: str | None) -> str | None:
    return None if mysql_type is None else _VALUES.sub(r"\1", mysql_type)


@cache
def _names(options: tuple[ColumnOptions, ...], table: TableName) -> _Names:
    working = _WORKING_TABLE.fullmatch(table[1])
    tables = [table] if working is None else [table, (table[0], working[1])]
    own = [option for option in options if any(map(option.concern, tables))]
    return _Names(
        frozenset(fold_name(name) for option in own for name in option.exclude),
        frozenset(fold_name(name) for option in own for name in option.hash),
    )


# ------------------------------------------------------------------- what is hashed


def number_text(value: str) -> str:
    """Return a number without what depends on the digits of its type: `1.50` is `1.5`."""
    text = value.rstrip("0").rstrip(".") if "." in value else value
    return "0" if text in ("-0", "") else text


def float_text(value: float) -> str:
    """Return a number with the fewest digits that distinguish it, as Python prints it."""
    return repr(value).removesuffix(".0")


def moment_text(value: str) -> str:
    """Return a date or a time without the zeros at the end of its fraction."""
    return value.rstrip("0").rstrip(".") if "." in value else value


def _bytes_of_default(mysql_type: str | None, value: str) -> bytes | None:
    """Return what is hashed of a default; None where its type is not known."""
    match = re.match(r"\w+", mysql_type or "")
    if match is None:
        return None
    name, text = match[0], value
    if name in _BYTES:
        return bytes.fromhex(value)
    if name == "bit":
        text = str(int(value, 16))
    elif name == "decimal":
        text = number_text(value)
    elif name in ("float", "double"):
        text = float_text(float(value))
    elif name in ("time", "datetime", "timestamp"):
        text = moment_text(value)
    return text.encode()
