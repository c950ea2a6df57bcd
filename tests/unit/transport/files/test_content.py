"""The bytes of a binlog, compressed or not: all of them, in little memory, or a clear word."""

from __future__ import annotations

import gc
import gzip
import io
import os
import tracemalloc
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from airflow_provider_binlog.errors import FormatError, TruncatedError
from airflow_provider_binlog.transport.files.content import Content, open_content
from tests.support.compression import zstd_stream

if TYPE_CHECKING:
    from collections.abc import Callable

DATA = bytes(range(256)) * 3000


FORMS: dict[str, Callable[[bytes], bytes]] = {
    "plain": bytes,
    "gzip": gzip.compress,
    "gzip in members": lambda data: gzip.compress(data[:9]) + gzip.compress(data[9:]),
    "gzip before zeros": lambda data: gzip.compress(data) + bytes(100),
    "zstd": zstd_stream,
    "zstd in frames": lambda data: zstd_stream(data[:9]) + zstd_stream(b"") + zstd_stream(data[9:]),
    "zstd after a skippable frame": lambda data: (
        b"\x50\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc" + zstd_stream(data)
    ),
}
COMPRESSED = [name for name in FORMS if name != "plain"]


def read(content: Content, size: int) -> bytes:
    pieces = []
    while True:
        view = memoryview(bytearray(size))
        filled = content.fill(view)
        pieces.append(bytes(view[:filled]))
        if filled < size:
            return b"".join(pieces)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("size", [1000, 1 << 16, 1 << 20])
def test_all_bytes_come(form: str, size: int) -> None:
    content = open_content(io.BytesIO(FORMS[form](DATA)))

    assert read(content, size) == DATA
    assert content.error is None
    assert content.size == (len(DATA) if form == "plain" else None)


@pytest.mark.parametrize("form", FORMS)
def test_a_view_is_filled_after_what_it_holds(form: str) -> None:
    content = open_content(io.BytesIO(FORMS[form](DATA)))
    view = memoryview(bytearray(b"abc" + bytes(7)))

    assert content.fill(view, 3) == 10
    assert bytes(view) == b"abc" + DATA[:7]


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("count", [0, 1, 70_000, len(DATA), len(DATA) + 1])
def test_bytes_are_skipped(form: str, count: int) -> None:
    content = open_content(io.BytesIO(FORMS[form](DATA)))

    assert content.skip(count) == min(count, len(DATA))
    assert read(content, 4096) == DATA[count:]


def test_a_file_that_grows_keeps_its_size() -> None:
    file = io.BytesIO(DATA)
    content = open_content(file)
    file.seek(0, os.SEEK_END)
    file.write(b"more")
    file.seek(0)

    assert content.size == len(DATA)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_cut_anywhere_it_is_truncated(form: str) -> None:
    whole = FORMS[form](DATA[:2000])
    for size in range(4, len(whole)):
        content = open_content(io.BytesIO(whole[:size]))

        assert DATA[:2000].startswith(read(content, 512))
        assert isinstance(content.error, TruncatedError), size
        assert content.fill(memoryview(bytearray(1))) == 0


@pytest.mark.parametrize("form", COMPRESSED)
def test_what_comes_before_damage_does_not_depend_on_how_it_is_read(form: str) -> None:
    whole = FORMS[form](os.urandom(500_000))
    cut = whole[: len(whole) * 2 // 3]
    found = []
    for size in (999, 1 << 18):
        content = open_content(io.BytesIO(cut))
        skipped = content.skip(12_345)
        found.append(skipped + len(read(content, size)))

    assert found[0] == found[1] > 200_000


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_garbage_after_the_end_is_refused(form: str) -> None:
    content = open_content(io.BytesIO(FORMS[form](DATA) + b"garbage, not zeros"))

    assert len(DATA) - (1 << 16) < len(read(content, 512)) <= len(DATA)
    assert isinstance(content.error, FormatError)
    assert not isinstance(content.error, TruncatedError)


def test_a_damaged_byte_is_refused() -> None:
    damaged = bytearray(gzip.compress(os.urandom(5000)))
    damaged[2000] ^= 1
    content = open_content(io.BytesIO(damaged))

    read(content, 512)

    assert content.error is not None
    assert "damaged" in str(content.error)


@pytest.mark.parametrize("form", ["gzip", "zstd"])
def test_a_bomb_takes_little_memory(form: str) -> None:
    bomb = FORMS[form](bytes(64 << 20))
    content = open_content(io.BytesIO(bomb))
    tracemalloc.start()

    passed = content.skip(1 << 40)

    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert passed == 64 << 20
    assert peak < 4 << 20


def test_damaged_files_leak_no_memory() -> None:
    cut = FORMS["zstd"](DATA)[:-3]
    tracemalloc.start()

    for _ in range(40):
        assert read(open_content(io.BytesIO(cut)), 1 << 16)

    gc.collect()
    left = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert left < 1 << 20


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="Linux shows its size")
def test_the_decompressor_is_freed_with_the_error() -> None:
    # A window of 128 MiB, and a block of the type that is reserved.
    damaged = b"\x28\xb5\x2f\xfd" + b"\x00\x88" + b"\x07\x00\x00"
    errors = []
    gc.disable()
    for _ in range(6):
        content = open_content(io.BytesIO(damaged))
        read(content, 10)
        errors.append(content.error)
        if len(errors) == 1:  # what Arrow takes once is its own
            before = _address_bytes()
    gc.enable()

    assert None not in errors
    assert _address_bytes() - before < 256 << 20


def _address_bytes() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * os.sysconf("SC_PAGE_SIZE")


def test_what_the_file_itself_raises_passes() -> None:
    class Broken(io.BytesIO):
        def read(self, size: int | None = -1, /) -> bytes:
            raise OSError(5, "Input/output error")

    for form in ("gzip", "zstd"):
        content = open_content(Broken(FORMS[form](DATA)))
        with pytest.raises(OSError, match="Input/output"):
            read(content, 10)
