"""A stored JSON document is read back as it was written, or refused."""

from __future__ import annotations

import hashlib
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_binlog import stored_json
from airflow_provider_binlog.errors import FormatError

text = st.text(st.characters(exclude_categories=["Cs"]))
values = st.recursive(
    st.none() | st.booleans() | st.integers() | text,
    lambda each: st.lists(each) | st.dictionaries(text, each),
    max_leaves=10,
)
documents = st.dictionaries(text.filter(lambda name: name != "sha256"), values, min_size=1)


@given(documents)
def test_reads_back_what_it_wrote(value: dict[str, object]) -> None:
    data = stored_json.encode(value)

    assert stored_json.decode(data) == value
    assert stored_json.decode(data.decode()) == value
    assert json.loads(data) == value | {"sha256": json.loads(data)["sha256"]}


@given(documents)
def test_the_digest_is_of_the_lines_before_it(value: dict[str, object]) -> None:
    data = stored_json.encode(value)

    before = b"\n".join(data.split(b"\n")[:-2]) + b"\n"
    assert json.loads(data)["sha256"] == hashlib.sha256(before).hexdigest()


@given(documents, st.data())
def test_what_was_cut_or_edited_is_refused(value: dict[str, object], draw: st.DataObject) -> None:
    data = stored_json.encode(value)
    at = draw.draw(st.integers(0, len(data) - 1))
    bit = 1 << draw.draw(st.integers(0, 7))

    with pytest.raises(FormatError, match="restore it as it was written"):
        stored_json.decode(data[:at])
    with pytest.raises(FormatError, match="restore it as it was written"):
        stored_json.decode(data[:at] + bytes([data[at] ^ bit]) + data[at + 1 :])


@pytest.mark.parametrize("data", [b"", b"{}", b'{"a": 1}', b"[]", "\ufeff", b"\xff" * 100])
def test_what_has_no_digest_is_refused(data: bytes | str) -> None:
    with pytest.raises(FormatError, match="does not end with its digest"):
        stored_json.decode(data)


def test_a_digest_of_values_ignores_order_and_format() -> None:
    value = {"a": {"x": 1, "y": "\u00fc"}, "b": [1, 2]}
    other = json.loads(json.dumps({"b": [1, 2], "a": {"y": "\u00fc", "x": 1}}, indent=4))

    assert stored_json.digest_of_values(value) == stored_json.digest_of_values(other)
    assert stored_json.digest_of_values(value) != stored_json.digest_of_values(value | {"b": [2]})
