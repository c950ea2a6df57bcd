"""PartQueue: parts are encoded in order by another thread, and errors come to who waits."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import StagingError
from airflow_provider_binlog.staging import part_writer
from airflow_provider_binlog.staging.part_writer import PartQueue
from tests.support.stores import open_store
from tests.unit.staging.test_part_writer import SCHEMA, table

if TYPE_CHECKING:
    from concurrent.futures import Future
    from pathlib import Path

    from airflow_provider_binlog.staging.part_writer import WrittenPart


class _Store:
    """Keeps the keys written and by which threads; refuses one of them."""

    writes_at_once = 1

    def __init__(self, refused: str = "") -> None:
        self.keys: list[str] = []
        self.threads: set[int] = set()
        self._refused = refused

    def write(self, key: str, data: bytes) -> None:
        self.threads.add(threading.get_ident())
        if key == self._refused:
            raise StagingError("the store failed", key=key, size=len(data))
        self.keys.append(key)


class _FarStore(_Store):
    """Answers a write once as many as it takes at a time have come, or so many of them."""

    writes_at_once = 4

    def __init__(self, refused: str = "", *, together: int = 4) -> None:
        super().__init__(refused)
        self._barrier = threading.Barrier(together)

    def write(self, key: str, data: bytes) -> None:
        if key != self._refused:
            self._barrier.wait(timeout=60)
        super().write(key, data)


def test_parts_are_written_in_order_by_one_other_thread() -> None:
    store = _Store()

    with PartQueue(store) as queue:  # type: ignore[arg-type]
        written = [queue.write(str(number), table(), SCHEMA) for number in range(4)]

    assert store.keys == ["0", "1", "2", "3"]
    assert len(store.threads) == 1
    assert threading.get_ident() not in store.threads
    assert len({each.result() for each in written}) == 1


def test_what_is_known_of_a_part_is_what_the_store_has(tmp_path: Path) -> None:
    store = open_store(f"file://{tmp_path}")

    with PartQueue(store) as queue:
        written = queue.write("shop/t/1.parquet", table(), SCHEMA)

    assert written.result().bytes == (tmp_path / "shop/t/1.parquet").stat().st_size


def test_small_parts_wait_for_others() -> None:
    store = _Store()

    with PartQueue(store) as queue:  # type: ignore[arg-type]
        written = [queue.write(str(number), table(), SCHEMA, small=True) for number in range(65)]
        written[63].result(timeout=60)
        assert store.keys == [str(number) for number in range(64)]
        queue.write("last", table(), SCHEMA)

    assert store.keys[64:] == ["64", "last"]


def test_nothing_is_made_while_a_part_of_large_rows_is_encoded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_writer, "is_large", lambda _: True)
    (tmp_path / "u").write_bytes(b"no folder")
    written: list[bool] = []

    def write_all() -> None:
        keys = ("t/1.parquet", "u/2.parquet", "t/3.parquet")
        with PartQueue(open_store(f"file://{tmp_path}")) as queue:
            written.extend(queue.write(key, table(), SCHEMA).done() for key in keys)

    with pytest.raises(StagingError, match=r"key=u/2\.parquet"):
        write_all()

    assert written == [True]
    assert [each.name for each in (tmp_path / "t").iterdir()] == ["1.parquet"]


def test_a_part_that_cannot_be_written_refuses_the_next_ones_and_itself() -> None:
    store, written = _Store("1"), []

    def write_all() -> None:
        with PartQueue(store) as queue:  # type: ignore[arg-type]
            written.append(queue.write("0", table(), SCHEMA, small=True))
            written.append(queue.write("1", table(), SCHEMA, small=True))
            written.append(queue.write("2", table(), SCHEMA))
            queue.write("3", table(), SCHEMA)

    with pytest.raises(StagingError, match="key=1"):
        write_all()

    assert store.keys == ["0"]
    assert written[0].result().bytes > 0
    for refused in written[1:]:
        with pytest.raises(StagingError, match="key=1"):
            refused.result()


def test_a_slow_store_is_sent_several_parts_at_once() -> None:
    store = _FarStore()

    with PartQueue(store) as queue:  # type: ignore[arg-type]
        written = [queue.write(str(number), table(), SCHEMA) for number in range(8)]
        small = [queue.write(f"s{number}", table(), SCHEMA, small=True) for number in range(4)]

    assert sorted(store.keys) == [*map(str, range(8)), *(f"s{number}" for number in range(4))]
    assert len({each.result() for each in (*written, *small)}) == 1


def test_no_part_is_encoded_while_more_bytes_than_allowed_are_sent(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(part_writer, "_SENT_BYTES", 0)
    store = _FarStore(together=1)

    with PartQueue(store) as queue:  # type: ignore[arg-type]
        for number in range(8):
            queue.write(str(number), table(), SCHEMA)

    assert store.keys == [str(number) for number in range(8)]


def test_a_part_that_cannot_be_sent_ends_the_range() -> None:
    store = _FarStore("2", together=1)
    written: list[Future[WrittenPart]] = []

    def write_all() -> None:
        with PartQueue(store) as queue:  # type: ignore[arg-type]
            written.extend(queue.write(str(number), table(), SCHEMA) for number in range(3))

    with pytest.raises(StagingError, match="key=2"):
        write_all()

    assert sorted(store.keys) == ["0", "1"]
    with pytest.raises(StagingError, match="key=2"):
        written[2].result()


def test_after_a_part_that_cannot_be_sent_none_is_encoded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(part_writer, "_SENT_BYTES", 0)
    store = _FarStore("1", together=1)
    written: list[Future[WrittenPart]] = []

    def write_all() -> None:
        with PartQueue(store) as queue:  # type: ignore[arg-type]
            parts = (queue.write(str(number), table(), SCHEMA, small=True) for number in range(4))
            written.extend(parts)

    with pytest.raises(StagingError, match="key=1"):
        write_all()

    assert store.keys == ["0"]
    for refused in written[1:]:
        with pytest.raises(StagingError, match="key=1"):
            refused.result()
