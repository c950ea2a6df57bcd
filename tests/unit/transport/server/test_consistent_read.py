"""What `gtid_owned` says of transactions that are not executed yet."""

from __future__ import annotations

import pytest

from airflow_provider_binlog.transport.server.consistent_read import parse_owned


@pytest.mark.parametrize(
    ("text", "owned"),
    [
        ("", []),
        ("uuid:5#12", ["uuid:5#12"]),
        ("uuid:5#12:6#13,other:1#14", ["uuid:5#12", "uuid:6#13", "other:1#14"]),
        ("uuid:tag:1#14:2#15:more:3#16", ["uuid:tag:1#14", "uuid:tag:2#15", "uuid:more:3#16"]),
    ],
)
def test_owned_gtids_have_their_tags(text: str, owned: list[str]) -> None:
    assert list(parse_owned(text)) == owned
