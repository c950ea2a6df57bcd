"""Compressed copies of binlogs under test: whole ones and damaged ones, read in any pieces.

Where a copy is damaged, what comes before does not depend on the pieces, nor on how large they are;
and gzip and Arrow, asked for all of it at once, find the same bytes or refuse it, too.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Callable, Iterator, Sequence
from random import Random

import pyarrow as pa

from airflow_provider_binlog.errors import FormatError
from airflow_provider_binlog.transport.files.content import open_content
from tests.fuzz import seeds
from tests.fuzz.log_targets import FILE, mutate_log, read_blocks
from tests.fuzz.mutate import mutate
from tests.fuzz.targets import Target, Wrong, check_text, shown
from tests.support.compression import zstd, zstd_stream

_BYTES_MAX = 1 << 20
"""Of a content so many are looked at: a bomb of a hundred bytes has as many as it likes."""

_PART_BYTES_MAX = 4096
_BLOCK_BYTES = 1000
_SKIPPABLE = b"\x53\x2a\x4d\x18" + (3).to_bytes(4, "little") + b"abc"
_EMPTY_GZIP = gzip.compress(b"", mtime=0)

Read = tuple[bytes, FormatError | None]


def _gzip(data: bytes) -> bytes:
    return gzip.compress(data, mtime=0)


def _halves(data: bytes) -> tuple[bytes, bytes]:
    return data[: len(data) // 2], data[len(data) // 2 :]


def _members(data: bytes) -> bytes:
    return b"".join(map(_gzip, _halves(data))) + _EMPTY_GZIP + bytes(70)


def _named(data: bytes) -> bytes:
    """Return a member with a name and a comment, as `gzip` writes the one of them."""
    whole = _gzip(data)
    return whole[:3] + b"\x18" + whole[4:10] + b"binlog.000001\0a comment\0" + whole[10:]


def _frames(data: bytes) -> bytes:
    one, other = _halves(data)
    return _SKIPPABLE + zstd(one) + zstd_stream(b"") + zstd_stream(other)


FORMS: tuple[Callable[[bytes], bytes], ...] = (_gzip, _members, _named, zstd, zstd_stream, _frames)


def _pieces(steps: bytes) -> Iterator[tuple[bool, int]]:
    """Yield whether so many bytes are skipped or read; forever."""
    for step in steps:
        yield bool(step & 1), (step >> 1) ** 2 * (1 + 2 * (step & 2))
    while True:
        yield False, 1 << 14


def _read(file: bytes, steps: bytes) -> tuple[list[tuple[int, bytes]], int, FormatError | None]:
    """Return the pieces that are read and where, how much there is, and why it ended."""
    content = open_content(io.BytesIO(file))
    pieces, at = [], 0
    for passes, wanted in _pieces(steps):
        size = min(wanted, _BYTES_MAX - at)
        if passes:
            found = content.skip(size)
        else:
            view = memoryview(bytearray(size + 2))
            view[:2] = b"??"
            found = content.fill(view, 2) - 2
            pieces.append((at, bytes(view[2 : 2 + found])))
            if bytes(view[:2]) != b"??" or any(view[2 + found :]):
                raise Wrong("bytes are written where none belong")
        at += found
        if found < size or at >= _BYTES_MAX:
            break
    if content.error is not None:
        check_text(content.error)
        if content.skip(9) or content.fill(memoryview(bytearray(9))):
            raise Wrong("bytes after an error")
    return pieces, at, content.error


def _read_both_ways(file: bytes, steps: bytes) -> Read:
    """Return what a file holds; however it is read, it is the same."""
    pieces, size, error = _read(file, steps)
    plain, plain_size, plain_error = _read(file, b"")
    whole = b"".join(piece for _, piece in plain)
    if size != plain_size or str(error) != str(plain_error):
        raise Wrong(f"pieces of another size: {size}, {error}; {plain_size}, {plain_error}")
    if any(whole[at : at + len(piece)] != piece for at, piece in pieces):
        raise Wrong("pieces of another size, other bytes")
    return whole, plain_error


def run_content(data: bytes) -> None:
    """Read a damaged file: its bytes, or as far as it can be read and why no further."""
    steps, file = (*seeds.unpack(data), b"", b"")[:2]
    whole, error = _read_both_ways(file, steps)
    expected = _expected(file)
    if len(whole) == _BYTES_MAX and error is None:
        return  # damage may follow
    if error is None and whole != expected:
        raise Wrong(f"{len(whole)} bytes, and not those of gzip or Arrow")
    if error is not None and expected is not None and len(expected) < _BYTES_MAX:
        raise Wrong(f"refused, and gzip or Arrow reads {len(expected)} bytes: {error}")


def _expected(file: bytes) -> bytes | None:
    """Return the first bytes of the content as libraries read it at once; None if they do not."""
    try:
        if file.startswith(b"\x1f\x8b"):
            return gzip.decompress(file)[:_BYTES_MAX]
        if file[:4] == b"\x28\xb5\x2f\xfd" or (file[1:4] == b"\x2a\x4d\x18" and file[0] >> 4 == 5):
            reader = pa.CompressedInputStream(pa.BufferReader(file), "zstd")
            return bytes(reader.read_buffer(_BYTES_MAX))
    except (OSError, EOFError, zlib.error):
        return None
    return file[:_BYTES_MAX]


def run_content_whole(data: bytes) -> None:
    """Read any bytes from copies in every form: they are the same, and no error."""
    steps, plain = (*seeds.unpack(data), b"", b"")[:2]
    for form in FORMS:
        whole, error = _read_both_ways(form(plain), steps)
        if error is not None or whole != plain:
            raise Wrong(f"{form.__name__}: {len(plain)} bytes become {len(whole)}, {error}")


def run_compressed_log(data: bytes) -> None:
    """Read the events of a damaged log from compressed copies: as from the log itself."""
    plain = read_blocks(data, _BLOCK_BYTES)
    for form in (_gzip, zstd_stream):
        copy = read_blocks(form(data), _BLOCK_BYTES)
        if isinstance(plain, list) is not isinstance(copy, list):
            raise Wrong(f"another outcome from a copy: {shown(plain)}; {shown(copy)}")
        if isinstance(plain, list) and plain != copy:
            raise Wrong("other events from a copy")


def mutate_content(random: Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """Damage the file, or read it in other pieces."""
    steps, file = seeds.unpack(data)
    if random.random() < 0.5:
        steps = random.randbytes(random.choice((0, 1, 3, 9)))
    if random.random() < 0.9:
        files = [seeds.unpack(random.choice(others))[1], file]
        file = mutate(random, file, files)[:_PART_BYTES_MAX]
    return seeds.pack([steps, file])


_PLAIN = (b"", b"a", bytes(range(256)) * 3, FILE.encode() * 100, Random("content").randbytes(2000))
_LARGE = bytes(700_000)


def _damaged_seeds() -> Sequence[bytes]:
    return tuple(
        seeds.pack([b"\x13\x20\x41", file])
        for file in (
            *(form(plain) for form in FORMS for plain in _PLAIN),
            *(form(_LARGE) for form in (_gzip, zstd, zstd_stream)),
            # A frame that asks for a window of 2 GiB, and its last block, which is empty.
            b"\x28\xb5\x2f\xfd\x00\xa8\x01\x00\x00",
        )
    )


def _whole_seeds() -> Sequence[bytes]:
    return tuple(seeds.pack([b"\xc1\x33\x10", plain]) for plain in _PLAIN)


CONTENT_TARGETS = (
    Target("content", run_content, _damaged_seeds, mutate_content),
    Target("content_whole", run_content_whole, _whole_seeds, mutate_content),
    Target("compressed_log", run_compressed_log, seeds.logs, mutate_log),
)
