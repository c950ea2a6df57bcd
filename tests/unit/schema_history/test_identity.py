"""Ids of tables and columns, against a plain model of a server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.schema import (
    AddField,
    CreateTable,
    DropField,
    DropTable,
    RenameField,
    RenameTable,
    RewriteRows,
    SetKey,
)
from tests.unit.schema_history.log import Log

if TYPE_CHECKING:
    from airflow_provider_binlog.schema import Action, TableName


class Column:
    """A column: itself, whatever its name."""

    def __init__(self, name: str) -> None:
        self.name = name


class Table:
    """A table: itself, whatever its name."""

    def __init__(self, *columns: str) -> None:
        self.columns = [Column(name) for name in columns]

    def column(self, name: str) -> Column:
        return next(each for each in self.columns if each.name == name)


NAMES, COLUMNS = ["t", "u", "v"], ["a", "b", "c", "d"]


class Model:
    """A server, as slow and plain as can be, beside what follows its log."""

    def __init__(self) -> None:
        self.log = Log()
        self.tables: dict[str, Table] = {}
        self.ids: dict[Table, str] = {}
        self.fields: dict[Column, tuple[str, int]] = {}
        # What a reader has that knows nothing but actions, after the first rows of a table.
        self.names: dict[str, TableName] = {}
        self.lake: dict[str, dict[int, str]] = {}

    def run(self, sql: str) -> None:
        self.fold(self.log.run(sql))

    def fold(self, actions: list[Action]) -> None:
        for action in actions:
            if isinstance(action, CreateTable):
                self.names[action.table] = action.name
            elif isinstance(action, DropTable):
                self.names.pop(action.table)
                self.lake.pop(action.table, None)
            elif isinstance(action, RenameTable):
                assert self.names[action.table] == action.old
                self.names[action.table] = action.new
            elif action.table in self.lake:
                self.fold_field(self.lake[action.table], action)

    def fold_field(self, fields: dict[int, str], action: Action) -> None:
        if isinstance(action, AddField):
            assert action.field not in fields
            fields[action.field] = action.name
        elif isinstance(action, DropField):
            assert fields.pop(action.field) == action.name
        elif isinstance(action, RenameField):
            assert fields[action.field] == action.old
            fields[action.field] = action.new
        assert not isinstance(action, RewriteRows), action

    def create(self, name: str, columns: list[str]) -> None:
        if name in self.tables:
            return
        self.tables[name] = Table("id", *columns)
        listed = ", ".join(f"{each} INT" for each in ["id", *columns])
        self.run(f"CREATE TABLE {name} ({listed})")

    def drop(self, name: str) -> None:
        if self.tables.pop(name, None) is not None:
            self.run(f"DROP TABLE {name}")

    def rename(self, pairs: list[tuple[str, str]]) -> None:
        after = dict(self.tables)
        done = []
        for old, new in pairs:
            if old in after and new not in after:
                after[new] = after.pop(old)
                done.append(f"{old} TO {new}")
        self.tables = after
        if done:
            self.run(f"RENAME TABLE {', '.join(done)}")

    def alter(self, name: str, drop: set[str], rename: dict[str, str], add: list[str]) -> None:
        table = self.tables.get(name)
        if table is None:
            return
        own = [each.name for each in table.columns]
        drop &= set(own)
        rename = {a: b for a, b in rename.items() if a in own and a not in drop and a != b}
        kept = [each for each in table.columns if each.name not in drop]
        renamed = {each: rename.get(each.name, each.name) for each in kept}
        if len(set(renamed.values())) < len(kept):
            return
        taken = set(renamed.values())
        add = [each for each in dict.fromkeys(add) if each not in taken]
        parts = [f"DROP COLUMN {each}" for each in sorted(drop)]
        parts += [f"RENAME COLUMN {a} TO {b}" for a, b in rename.items()]
        parts += [f"ADD COLUMN {each} INT FIRST" for each in add]
        for each in kept:
            each.name = renamed[each]
        table.columns = [*map(Column, reversed(add)), *kept]
        if parts:
            self.run(f"ALTER TABLE {name} {', '.join(parts)}")

    def rows(self, name: str) -> None:
        table = self.tables.get(name)
        if table is None:
            return
        columns = [f"{each.name} int" for each in table.columns]
        key = 1 + [each.name for each in table.columns].index("id")
        # `id` stands for the unique key which the server takes in place of a primary one.
        actions = self.log.rows(("shop", name), *columns, key=key)
        state = self.log.state(("shop", name))
        assert all(isinstance(each, SetKey) for each in actions)
        assert state.schema is not None
        if state.id not in self.lake:
            self.lake[state.id] = {each.id: each.name for each in state.schema.fields}
        self.names.setdefault(state.id, ("shop", name))

    def check(self) -> None:
        for name, table in self.tables.items():
            state = self.log.state(("shop", name))
            assert self.ids.setdefault(table, state.id) == state.id
            assert state.schema is not None
            assert [each.name for each in state.schema.fields] == [
                each.name for each in table.columns
            ]
            for column, known in zip(table.columns, state.schema.fields, strict=True):
                of = state.id, known.id
                assert self.fields.setdefault(column, of) == of
            if state.id in self.lake:
                assert self.lake[state.id] == {each.id: each.name for each in state.schema.fields}
        assert len(set(self.ids.values())) == len(self.ids)
        assert len(set(self.fields.values())) == len(self.fields)
        live = {self.ids[table]: ("shop", name) for name, table in self.tables.items()}
        assert live == self.names


names, columns = st.sampled_from(NAMES), st.sampled_from(COLUMNS)


steps = st.one_of(
    st.tuples(st.just("create"), names, st.lists(columns, unique=True)),
    st.tuples(st.just("drop"), names),
    st.tuples(st.just("rename"), st.lists(st.tuples(names, names), min_size=1, max_size=3)),
    st.tuples(
        st.just("alter"),
        names,
        st.sets(columns),
        st.dictionaries(columns, columns),
        st.lists(columns),
    ),
    st.tuples(st.just("rows"), names),
)


@given(st.lists(steps, max_size=30))
def test_identity_is_that_of_the_tables_and_columns_themselves(
    history: list[tuple[object, ...]],
) -> None:
    model = Model()
    for verb, *arguments in history:
        getattr(model, str(verb))(*arguments)
        model.check()
