"""What every `ObjectStore` does: subclass the cases and give a `store` fixture."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import ConflictError, ObjectMissingError
from airflow_provider_binlog.names import encode_name
from airflow_provider_binlog.staging.object_store import ObjectStore

if TYPE_CHECKING:
    from pathlib import Path

RACERS = 8
NAMES = ["a/b", "x:y", "50%", "a%2Fb", "..", "ü", "a b", "[1]", "{a,b}", "*", "_t", "~", "表" * 64]


class ObjectStoreCases:
    """Each test is a sentence of the contract."""

    def test_reads_what_was_written(self, store: ObjectStore) -> None:
        store.write("shop/orders/1.parquet", b"\x00one")

        assert store.read("shop/orders/1.parquet") == b"\x00one"
        assert store.size("shop/orders/1.parquet") == 4

    def test_write_replaces(self, store: ObjectStore) -> None:
        store.write("key", b"a longer text")
        store.write("key", b"short")

        assert store.read("key") == b"short"
        assert store.size("key") == 5

    def test_a_file_is_uploaded_and_opened(self, store: ObjectStore, tmp_path: Path) -> None:
        (tmp_path / "file").write_bytes(b"of a file")
        store.upload("folder/copy", tmp_path / "file")

        with store.open("folder/copy") as file:
            assert file.read() == b"of a file"
        assert store.list("folder") == ["copy"]
        with pytest.raises(ObjectMissingError):
            store.open("folder/other").read()

    def test_an_object_is_what_its_file_was_filled_with(self, store: ObjectStore) -> None:
        with store.filling("folder/key") as file:
            file.write_bytes(b"first")
            assert store.list("folder") == []
        with pytest.raises(ValueError, match="invalid"), store.filling("folder/key") as file:
            file.write_text(str(int("second")))

        assert store.read("folder/key") == b"first"
        assert store.list("folder") == ["key"]
        assert not file.exists()

    def test_an_empty_object_is_an_object(self, store: ObjectStore) -> None:
        store.write("folder/empty", b"")

        assert store.read("folder/empty") == b""
        assert store.list("folder") == ["empty"]

    def test_create_refuses_an_existing_key_and_keeps_its_object(self, store: ObjectStore) -> None:
        store.create("key", b"first")

        with pytest.raises(ConflictError, match="key=key"):
            store.create("key", b"second")
        assert store.read("key") == b"first"

    def test_create_refuses_a_key_that_was_written(self, store: ObjectStore) -> None:
        store.write("key", b"first")

        with pytest.raises(ConflictError):
            store.create("key", b"second")

    def test_one_of_many_concurrent_creates_wins(self, store: ObjectStore) -> None:
        def race(racer: int) -> int | None:
            try:
                store.create("folder/prize", b"%d" % racer * 1000)
            except ConflictError:
                return None
            return racer

        with ThreadPoolExecutor(RACERS) as pool:
            winners = [racer for racer in pool.map(race, range(RACERS)) if racer is not None]

        assert len(winners) == 1
        assert store.read("folder/prize") == b"%d" % winners[0] * 1000
        assert store.list("folder") == ["prize"]

    def test_a_missing_object_is_an_error(self, store: ObjectStore) -> None:
        store.write("folder/key", b"")

        with pytest.raises(ObjectMissingError, match="key=nothing/here"):
            store.read("nothing/here")
        with pytest.raises(ObjectMissingError, match="key=nothing/here"):
            store.size("nothing/here")
        with pytest.raises(ObjectMissingError):
            store.size("folder")

    def test_lists_objects_directly_below_sorted(self, store: ObjectStore) -> None:
        for key in ("m/10", "m/9", "m/a/deeper", "other/1", "m2/1"):
            store.write(key, b"x")

        assert store.list("m") == ["10", "9"]

    def test_lists_nothing_in_an_empty_folder(self, store: ObjectStore) -> None:
        assert store.list("no/such/folder") == []

    def test_listing_is_never_stale(self, store: ObjectStore) -> None:
        for number in range(3):
            assert store.list("m") == [str(n) for n in range(number)]
            store.create(f"m/{number}", b"x")

    def test_lists_more_than_a_page(self, store: ObjectStore) -> None:
        names = [f"{number:016}.json" for number in range(1, 1101)]
        with ThreadPoolExecutor(RACERS) as pool:
            list(pool.map(lambda name: store.write(f"m/{name}", b"{}"), names))

        assert store.list("m") == names

    @pytest.mark.parametrize("name", NAMES)
    def test_takes_every_encoded_name(self, store: ObjectStore, name: str) -> None:
        encoded = encode_name(name)
        store.create(f"{encoded}/{encoded}/part", name.encode())

        assert store.read(f"{encoded}/{encoded}/part") == name.encode()
        assert store.list(f"{encoded}/{encoded}") == ["part"]

    def test_finds_all_objects_below_a_folder(self, store: ObjectStore) -> None:
        before = datetime.now(UTC) - timedelta(seconds=2)
        for key in ("m/10", "m/9", "m/a/ü b", "m/a/.killed", "m2/1"):
            store.write(key, key.encode())

        found = store.find("m")

        assert {each.key: each.bytes for each in found} == {
            key: len(key.encode()) for key in ("m/10", "m/9", "m/a/ü b", "m/a/.killed")
        }
        assert all(each.modified and each.modified > before for each in found)
        assert store.find("no/such/folder") == []

    def test_deletes_objects_whether_they_exist_or_not(self, store: ObjectStore) -> None:
        keys = [f"m/{number}" for number in range(1010)]
        for key in ("m/a", "m/[1]", "n", *keys[-2:]):
            store.write(key, b"x")

        store.delete([*keys, "m/[1]", "no/such"])

        assert [each.key for each in store.find("")] == ["m/a", "n"]
