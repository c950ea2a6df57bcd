"""The manifest: read back as written, as documented, and nothing else is read."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog import stored_json
from airflow_provider_binlog.changes import BeforeImages, ChangeType, InvalidText, ZeroDates
from airflow_provider_binlog.errors import ManifestError
from airflow_provider_binlog.manifest import (
    Manifest,
    Part,
    Prepared,
    Statement,
    TableChanges,
)
from airflow_provider_binlog.position import Flavor, Position, SourceIdentity
from airflow_provider_binlog.schema import (
    AddField,
    AlterField,
    CreateTable,
    Default,
    DropField,
    DropTable,
    ExcludedField,
    Field,
    RenameField,
    RenameTable,
    RewriteRows,
    Schema,
    SetKey,
    TruncateTable,
    UnknownDefault,
)
from airflow_provider_binlog.staging.paths import part_path
from airflow_provider_binlog.table_options import ColumnOptions
from tests.unit.staging.manifests import manifest

DOCS = Path(__file__).parents[2] / "docs"
VALIDATOR = jsonschema.Draft202012Validator(
    json.loads((DOCS / "manifest.schema.json").read_text()),
    format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER,
)
STORED: dict[str, Any] = json.loads(manifest(42).encode())

text = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
counts = st.dictionaries(text, st.integers(0, 2**40), max_size=3)
positions = st.builds(
    Position,
    file=st.builds(
        "{}.{:06}".format, text.filter(lambda name: "\n" not in name), st.integers(1, 10**7)
    ),
    offset=st.integers(4, 2**63),
    gtid=st.none() | text,
    logged=st.none() | text,
    file_created=st.none() | st.integers(0, 2**32 - 1),
)
ids = st.integers(1, 9)
defaults = st.builds(Default, st.none() | text)
fields = st.builds(
    Field,
    id=ids,
    name=text,
    mysql_type=st.none() | text,
    arrow_type=st.none() | text,
    nullable=st.booleans(),
    charset=st.none() | text,
    initial_default=st.none() | defaults | st.builds(UnknownDefault, text),
    write_default=st.none() | defaults,
    charset_assumed=st.booleans(),
    generated=st.booleans(),
    auto_increment=st.booleans(),
    primary=st.booleans(),
    origin=st.none() | st.tuples(text, text, text),
    hashed=st.none() | st.binary(min_size=6, max_size=6).map(bytes.hex),
)
schemas = st.builds(
    Schema,
    id=ids,
    fields=st.lists(fields, max_size=3).map(tuple),
    key=st.lists(ids, max_size=2).map(tuple),
    excluded=st.lists(st.builds(ExcludedField, st.integers(0, 9), fields), max_size=2).map(tuple),
)
table_ids = st.binary(min_size=8, max_size=8).map(bytes.hex)
names = st.tuples(text, text)
actions = st.one_of(
    st.builds(CreateTable, table_ids, names),
    st.builds(DropTable, table_ids, names),
    st.builds(TruncateTable, table_ids),
    st.builds(RenameTable, table_ids, names, names),
    st.builds(AddField, table_ids, ids, text, st.booleans()),
    st.builds(DropField, table_ids, ids, text),
    st.builds(RenameField, table_ids, ids, text, text),
    st.builds(AlterField, table_ids, ids, text, st.none() | text, st.none() | text),
    st.builds(SetKey, table_ids, st.lists(ids, max_size=2).map(tuple)),
    st.builds(RewriteRows, table_ids, text, st.none() | ids),
)
parts = st.builds(
    Part,
    path=st.builds(
        part_path,
        text,
        text,
        st.integers(1, 10**16 - 1),
        st.integers(0, 10**6 - 1),
        st.binary(min_size=6, max_size=6).map(bytes.hex),
    ),
    schema=ids,
    rows=st.integers(1, 2**40),
    bytes=st.integers(1, 2**40),
    sha256=st.binary(min_size=32, max_size=32).map(bytes.hex),
    first_row=st.integers(0, 2**63),
    last_row=st.integers(0, 2**63),
    first_commit=st.integers(0, 2**53),
    last_commit=st.integers(0, 2**53),
    changes=st.dictionaries(
        st.sampled_from([each.value for each in ChangeType]), st.integers(1, 9)
    ),
    replaced=counts,
)
tables = st.builds(
    TableChanges,
    id=table_ids,
    database=text,
    table=text,
    dropped=st.booleans(),
    created=st.none() | st.integers(1, 10**16 - 1),
    schemas=st.lists(schemas, max_size=2).map(tuple),
    current=st.none() | ids,
    last_field_id=st.integers(0, 9),
    logged=st.none() | ids,
    changed=st.booleans(),
    images=st.lists(st.lists(ids, max_size=2).map(tuple), max_size=2).map(tuple),
    parts=st.lists(parts, max_size=2).map(tuple),
    unrepresentable=counts,
    invalid_text=counts,
)
statements = st.builds(
    Statement,
    file=positions.map(lambda position: position.file),
    offset=st.integers(4, 2**63),
    row=st.integers(0, 2**63),
    type=text,
    text=text,
    actions=st.lists(actions, max_size=3).map(tuple),
)
manifests = st.builds(
    Manifest,
    sequence=st.integers(1, 10**16 - 1),
    identity=st.builds(SourceIdentity, st.sampled_from(Flavor), text, text),
    start=positions,
    stop=positions,
    before_images=st.sampled_from(BeforeImages),
    include=st.lists(text, max_size=2).map(tuple),
    exclude=st.lists(text, max_size=2).map(tuple),
    captured_since=st.integers(1, 10**16 - 1),
    tables=st.lists(tables, max_size=2).map(tuple),
    statements=st.lists(statements, max_size=2).map(tuple),
    events=counts,
    skipped_events=counts,
    created_at=st.datetimes(timezones=st.just(None)).map(lambda time: f"{time.isoformat()}+00:00"),
    created_by=text,
    zero_dates=st.sampled_from(ZeroDates),
    invalid_text=st.sampled_from(InvalidText),
    prepared=st.lists(
        st.builds(
            Prepared,
            xid=text,
            gtid=st.none() | text,
            file=positions.map(lambda position: position.file),
            offset=st.integers(4, 2**63),
            tables=st.lists(st.tuples(text, text), max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
    dropped_databases=st.lists(text, max_size=2).map(tuple),
    columns=st.lists(
        st.builds(
            ColumnOptions,
            text,
            st.lists(text, max_size=2).map(tuple),
            st.lists(text, max_size=2).map(tuple),
        ),
        max_size=2,
    ).map(tuple),
)


def encoded(value: dict[str, Any]) -> bytes:
    """Return a manifest as it is stored, with the digest of these values."""
    if "sha256" not in value:
        return json.dumps(value).encode()
    return stored_json.encode({name: each for name, each in value.items() if name != "sha256"})


@given(manifests)
def test_reads_back_what_it_wrote(written: Manifest) -> None:
    data = written.encode()

    assert Manifest.decode(data) == written
    assert Manifest.decode(data.decode()) == written
    assert Manifest.decode(data).encode() == data


@given(manifests)
def test_is_what_the_schema_says(written: Manifest) -> None:
    VALIDATOR.validate(json.loads(written.encode()))


def test_the_documented_example_is_a_manifest() -> None:
    example = re.search(r"```json\n(.*?)```", (DOCS / "staged-format.md").read_text(), re.DOTALL)
    assert example

    value = json.loads(example[1])
    VALIDATOR.validate(value)
    read = Manifest.decode(example[1].strip())
    assert json.loads(read.encode()) | {"sha256": value["sha256"]} == value
    assert read.rows == sum(read.tables[0].changes.values()) == 5


@pytest.mark.parametrize("field", STORED)
def test_every_field_is_needed(field: str) -> None:
    value = {name: each for name, each in STORED.items() if name != field}

    with pytest.raises(ManifestError):
        Manifest.decode(encoded(value))
    assert not VALIDATOR.is_valid(value)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"format": "parquet"}, "not a manifest.*format=parquet"),
        ({"version": 1}, r"another version.*version=1, known=2"),
        ({"source": {"flavor": "oracle", "server": "x", "log_name": "y"}}, "not a manifest"),
        ({"start": {"file": "binlog.000001", "offset": 3, "gtid": None}}, "not a manifest"),
        ({"stop": {"file": "binlog.000001", "offset": "4", "gtid": None}}, "not a manifest"),
        (
            {"stop": {"file": "b.000001", "offset": 4, "gtid": None, "file_created": "1"}},
            "not a manifest",
        ),
        ({"before_images": "some"}, "not a manifest"),
        ({"tables": [{}]}, "not a manifest"),
        ({"tables": None}, "not a manifest"),
        ({"statements": [{"actions": [{"type": "melt_table"}]}]}, "not a manifest"),
        ({"events": 1}, "not a manifest"),
        ({"sequence": "x"}, "not a manifest"),
    ],
)
def test_refuses_what_is_no_manifest(change: dict[str, Any], says: str) -> None:
    value = STORED | change

    with pytest.raises(ManifestError, match=says):
        Manifest.decode(encoded(value))
    assert not VALIDATOR.is_valid(value)


@pytest.mark.parametrize("path", ["../../other/part.parquet", "/etc/part", "a//b", "a/./b", ""])
def test_a_part_outside_of_the_sources_folder_is_refused(path: str) -> None:
    table = STORED["tables"][0]
    part = table["parts"][0] | {"path": path}
    value = STORED | {"tables": [table | {"parts": [part]}]}

    with pytest.raises(ManifestError, match="not the path of a part"):
        Manifest.decode(encoded(value))


def test_cut_anywhere_is_refused() -> None:
    data = manifest(1).encode()

    for size in range(len(data)):
        with pytest.raises(ManifestError):
            Manifest.decode(data[:size])


@pytest.mark.fault("manifest-damaged")
def test_an_edit_of_any_byte_is_refused() -> None:
    data = manifest(1).encode()

    for at in range(len(data)):
        edited = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
        with pytest.raises(ManifestError, match="not a manifest: the file"):
            Manifest.decode(edited)


def test_an_edited_stop_is_refused_with_what_to_do() -> None:
    data = manifest(1).encode().replace(b'"offset": 1004', b'"offset": 1005')

    with pytest.raises(ManifestError, match=r"edited or damaged.*restore it as it was written"):
        Manifest.decode(data)
    with pytest.raises(ManifestError, match=r"does not end with its digest.*restore it"):
        Manifest.decode(json.dumps(json.loads(data)))


def test_what_is_nested_too_deep_is_refused() -> None:
    with pytest.raises(ManifestError):
        Manifest.decode("[" * 100_000)


@given(st.binary() | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(json.dumps))
def test_any_bytes_are_a_manifest_or_a_manifest_error(data: bytes | str) -> None:
    with pytest.raises(ManifestError):
        Manifest.decode(data)


def test_totals_are_sums_over_parts() -> None:
    part = manifest(1).tables[0].parts[0]
    table = replace(manifest(1).tables[0], parts=(part, part))

    assert table.rows == 6
    assert table.changes == {"insert": 4, "delete": 2}
    assert manifest(1).rows == 3
