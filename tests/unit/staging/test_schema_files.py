"""Schema files: what a name stood for after each manifest, written by whoever comes next."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import Manifest, Statement, TableChanges
from airflow_provider_binlog.schema import (
    CreateTable,
    Default,
    DropTable,
    Field,
    RenameTable,
    Schema,
    TableState,
    UnknownDefault,
)
from airflow_provider_binlog.staging.manifest_log import FORMAT, SchemaFile, SchemaFiles, files_of
from airflow_provider_binlog.staging.object_store import ObjectStore
from airflow_provider_binlog.staging.paths import part_path, schema_folder
from tests.support.stores import open_store
from tests.unit.staging.manifests import manifest

T, U = ("shop", "t"), ("shop", "u")
FIELDS = (
    Field(1, "id", "int", "int32", nullable=False),
    Field(3, "a", "varchar(9)", None, True, "utf8mb4", Default(None), Default("x"), True),
    Field(4, "b", None, None, True, initial_default=UnknownDefault("no reason")),
)
STATE = TableState("0" * 16, T, 3, Schema(2, FIELDS, (1,)), 5, 1)


@pytest.fixture
def store(tmp_path: object) -> ObjectStore:
    return open_store(f"file://{tmp_path}")


def table(state: TableState, *, dropped: bool = False, changed: bool = True) -> TableChanges:
    schema = state.schema
    return TableChanges(
        id=state.id,
        database=state.name[0],
        table=state.name[1],
        dropped=dropped,
        created=state.created,
        schemas=() if schema is None else (schema,),
        current=None if schema is None else schema.id,
        last_field_id=state.last_field_id,
        logged=state.logged,
        changed=changed,
    )


def after(
    sequence: int,
    *tables: TableChanges,
    actions: tuple[CreateTable | DropTable | RenameTable, ...] = (),
) -> Manifest:
    statement = Statement("binlog.000001", 4, 4, "X", "X", actions)
    return replace(manifest(sequence), tables=tables, statements=(statement,))


@pytest.mark.parametrize("state", [STATE, None, replace(STATE, schema=None, created=None)])
def test_a_file_reads_back(state: TableState | None) -> None:
    file = SchemaFile(41, T, state)

    assert FORMAT.decode(SchemaFile, FORMAT.encode(file)) == file


@given(st.binary() | st.recursive(st.none() | st.integers(), st.lists).map(str))
def test_any_bytes_are_a_schema_file_or_a_manifest_error(data: bytes | str) -> None:
    with pytest.raises(ManifestError):
        FORMAT.decode(SchemaFile, data)


def test_cut_anywhere_is_refused() -> None:
    data = FORMAT.encode(SchemaFile(41, T, STATE))

    for size in range(len(data)):
        with pytest.raises(ManifestError):
            FORMAT.decode(SchemaFile, data[:size])


def test_the_newest_file_below_a_number_is_found(store: ObjectStore) -> None:
    files = SchemaFiles(store, "shop")
    for sequence in (3, 10):
        files.publish(after(sequence, table(replace(STATE, last_field_id=sequence))))

    assert files.find(T, before=3) is None
    for before, last in ((4, 3), (10, 3), (11, 10), (99, 10)):
        found = files.find(T, before=before)
        assert found is not None
        assert found.state == replace(STATE, last_field_id=last)
    assert files.find(U, before=99) is None


def test_publishing_again_changes_nothing(store: ObjectStore) -> None:
    files, committed = SchemaFiles(store, "shop"), after(3, table(STATE))
    files.publish(committed)
    folder = schema_folder("shop", *T)
    (name,) = store.list(folder)
    data = store.read(f"{folder}/{name}")

    files.publish(committed)

    assert store.list(folder) == [name]
    assert store.read(f"{folder}/{name}") == data


def test_a_table_that_did_not_change_has_no_file() -> None:
    assert files_of(after(3, table(STATE, changed=False))) == []


def test_a_rename_writes_both_names() -> None:
    renamed = replace(STATE, name=U)

    found = files_of(after(3, table(renamed), actions=(RenameTable(STATE.id, T, U),)))

    assert found == [SchemaFile(3, T, None), SchemaFile(3, U, renamed)]


def test_of_a_name_that_was_dropped_and_created_again_the_last_table_is_written() -> None:
    new = replace(STATE, id="1" * 16)
    actions = (DropTable(STATE.id, T), CreateTable(new.id, T))

    found = files_of(after(3, table(STATE, dropped=True), table(new), actions=actions))

    assert found == [SchemaFile(3, T, new)]
    assert files_of(after(3, table(STATE, dropped=True), actions=actions[:1])) == [
        SchemaFile(3, T, None)
    ]


def test_a_dropped_database_has_a_file(store: ObjectStore) -> None:
    files = SchemaFiles(store, "shop")
    files.publish(replace(after(3, table(STATE)), dropped_databases=("shop",)))

    assert files.find(T, before=4) == SchemaFile(3, T, STATE)
    assert files.find(U, before=4) is None
    assert files.find(("shop", ""), before=4) == SchemaFile(3, ("shop", ""), None)
    assert files.find(("shop", ""), before=3) is None
    assert files.find(("crm", ""), before=4) is None
    assert [each.name for each in files.find_all("shop", before=4)] == [T]


def test_all_tables_of_a_database_are_found(store: ObjectStore) -> None:
    files = SchemaFiles(store, "shop")
    files.publish(after(3, table(STATE), table(replace(STATE, name=("crm", "x")))))
    files.publish(after(4, actions=(DropTable(STATE.id, T), CreateTable("1" * 16, U))))

    assert {each.name: each.state for each in files.find_all("shop", before=4)} == {T: STATE}
    found = files.find_all("shop", before=5)
    assert {each.name: each.state for each in found} == {T: None, U: None}
    assert list(files.find_all("nothing", before=5)) == []


def test_names_may_be_anything(store: ObjectStore) -> None:
    files = SchemaFiles(store, "a/b")
    for name in (("..", "%"), ("schemas", "_t"), ("manifests", "表" * 64)):
        files.publish(after(3, table(replace(STATE, name=name))))

        found = files.find(name, before=4)
        assert found is not None
        assert (found.name, found.state) == (name, replace(STATE, name=name))


@pytest.mark.parametrize("database", ["schemas", "Schemas", "snapshots"])
def test_a_database_named_like_the_folder_lies_beside_it(database: str) -> None:
    path = part_path(database, "t", 1, 0, "0" * 12)

    assert path.partition("/")[0] == f"%{ord(database[0]):02X}{database[1:]}"


def test_a_file_of_another_name_is_refused(store: ObjectStore) -> None:
    folder = schema_folder("shop", *T)
    store.write(f"{folder}/{3:016}.json", FORMAT.encode(SchemaFile(3, U, None)))

    with pytest.raises(ManifestError, match="another's key"):
        SchemaFiles(store, "shop").find(T, before=4)


@pytest.mark.parametrize("change", [b"{}", b'{"format": "x", "version": 1}'])
def test_what_is_no_schema_file_is_refused_with_its_key(store: ObjectStore, change: bytes) -> None:
    key = f"{schema_folder('shop', *T)}/{3:016}.json"
    store.write(key, change)

    with pytest.raises(ManifestError, match=f"key={key}"):
        SchemaFiles(store, "shop").find(T, before=4)
