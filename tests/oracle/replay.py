"""The staged changes applied one after another in plain dicts: what a perfect merge would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow_provider_binlog.changes import CHANGE_TYPE
from airflow_provider_binlog.sql.ddl import read_ddl
from airflow_provider_binlog.sql.lexer import Session
from tests.oracle.kinds import as_shown
from tests.support.replay import DifferenceError, TableRows
from tests.support.staged import Replay, named_in

if TYPE_CHECKING:
    from airflow_provider_binlog.manifest import Manifest, Statement
    from tests.oracle.tables import Effect, Past
    from tests.support.staged import Change


class EffectReplay(Replay):
    """A replay whose statements have the effects that they had on the server.

    Args:
        past: What the statements did, and what the columns are.
        refused: Names of tables of which statements may be missing.
    """

    def __init__(self, past: Past, refused: set[str]) -> None:
        super().__init__()
        self._past = past
        self._refused = refused
        self._effects = iter(past.effects)
        self._tables: dict[str, TableRows] = {}

    def tables(self) -> dict[str, TableRows]:
        """Return the tables by the names that they have now."""
        return self._tables

    def end(self) -> None:
        """Check that no statement was left out.

        Raises:
            DifferenceError: One was.
        """
        for effect in self._effects:
            self._skip(effect)

    def _skip(self, effect: Effect) -> None:
        if self._refused.isdisjoint(effect.tables):
            raise DifferenceError(f"not staged: {effect}")

    def _find_effect(self, statement: Statement, manifest: Manifest) -> Effect:
        """Return the effect of a statement, which has to be the one that came next."""
        ddl = read_ddl(statement.text, Session(manifest.identity.flavor))
        tables = () if ddl is None else tuple(name for _, name in ddl.tables)
        staged = statement.type, tables
        for effect in self._effects:
            if staged == (effect.kind, effect.tables):
                return effect
            self._skip(effect)
        raise DifferenceError(f"a statement that was not written: {statement}")

    def run(self, statement: Statement, manifest: Manifest) -> None:
        """Apply the effect of a statement."""
        if statement.type.endswith("DATABASE"):
            return
        effect = self._find_effect(statement, manifest)
        if effect.kind == "CREATE TABLE":
            self._tables[effect.tables[0]] = TableRows()
        rows = self._tables[effect.tables[0]]
        if effect.truncated:
            rows.clear()
        if effect.key is not None:
            rows.set_key(effect.key)
        for row in rows:
            row.update(effect.added)
            if effect.dropped is not None:
                del row[effect.dropped]
            if effect.renamed is not None:
                old, new = effect.renamed
                row[new] = row.pop(old)
        for old, new in effect.moves:
            self._tables[new] = self._tables.pop(old)

    def change(self, change: Change) -> None:
        """Apply one change, in the form in which the server is asked for its values."""
        kinds, filled = self._past.kinds, self._past.filled
        image = {name: as_shown(kinds[name], value) for name, value in change.image.items()}
        # What an insert leaves out has its default.
        defaults = {column: filled[column] for column in change.row if column in filled}
        rows = self._tables[named_in(change.part)]
        rows.apply(change.row[CHANGE_TYPE], image, defaults)
