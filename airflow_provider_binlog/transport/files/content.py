"""Content of a binlog file as the server wrote it, whether or not it is compressed.

Copies are kept as gzip and zstd, as their first bytes say. They are read from the beginning:
neither form can be entered in the middle, and how long the content is shows at its end.

Source: RFC 1952, 2.2, file format; RFC 8878, 3.1, frames.
"""

from __future__ import annotations

import gzip
import io
import os
import zlib
from typing import Any, TypeAlias, cast

import pyarrow as pa

from airflow_provider_binlog.errors import FormatError, TruncatedError

_GZIP_MAGIC = b"\x1f\x8b"
_ZSTD_MAGIC = b"\x28\xb5\x2f\xfd"
# Frames for applications, which pzstd writes in front: any of sixteen first bytes.
_ZSTD_SKIPPABLE = b"\x2a\x4d\x18"
_MAGIC_SIZE = 4

_PIECE_BYTES = 1 << 16
"""Decompressed at once."""


BinaryFile: TypeAlias = io.RawIOBase | io.BufferedIOBase
"""A file open for reading: a local one, or one of a store."""


class Content:
    """The bytes of a binlog, from the first one on.

    Attributes:
        size: Their number when the file was opened; None if only the end shows it.
        error: Why a compressed copy ended early; None if it did not.
    """

    size: int | None
    error: FormatError | None = None

    def __init__(self, file: BinaryFile) -> None:
        self._file = file
        self.size = self._end = file.seek(0, os.SEEK_END)
        self._at = file.seek(0)

    def fill(self, view: memoryview, filled: int = 0) -> int:
        """Read until the view is full or the content ends; return how far it is full.

        Its first `filled` bytes are there already.
        """
        end = _fill(self._file, view, filled)
        self._at += end - filled
        return end

    def skip(self, count: int) -> int:
        """Skip so many bytes, or to the end; return how many were skipped."""
        skipped = min(count, self._end - self._at)
        self._at = self._file.seek(self._at + skipped)
        return skipped


def open_content(file: BinaryFile) -> Content:
    """Return what a file holds; the file stays the caller's to close."""
    view = memoryview(bytearray(_MAGIC_SIZE))
    first = bytes(view[: _fill(file, view, 0)])
    if first.startswith(_GZIP_MAGIC):
        file.seek(0)
        return _Gzip(file)
    if first == _ZSTD_MAGIC or (first[1:] == _ZSTD_SKIPPABLE and first[0] >> 4 == 5):
        file.seek(0)
        return _Zstd(file)
    return Content(file)


class _Compressed(Content):
    """A compressed copy.

    It is read in pieces of one size, so that where it is found damaged does not depend on how much
    is asked for: what one reader saw before that, every other one sees, too.
    """

    size = None

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._piece = memoryview(b"")

    def fill(self, view: memoryview, filled: int = 0) -> int:
        while filled < len(view) and self._more():
            count = min(len(self._piece), len(view) - filled)
            view[filled : filled + count] = self._take(count)
            filled += count
        return filled

    def skip(self, count: int) -> int:
        left = count
        while left and self._more():
            left -= len(self._take(min(len(self._piece), left)))
        return count - left

    def _more(self) -> bool:
        if not self._piece and self.error is None:
            try:
                self._piece = self._read()
            except FormatError as error:
                self.error = error
                # Its traceback keeps this object until cycles are collected. What decompresses may
                # hold 128 MiB, for so large a window a damaged byte can ask.
                self._stream = None
        return bool(self._piece)

    def _take(self, count: int) -> memoryview:
        taken, self._piece = self._piece[:count], self._piece[count:]
        return taken

    def _read(self) -> memoryview:
        raise NotImplementedError


class _Gzip(_Compressed):
    """Members one after another; zeros may follow the last one."""

    def __init__(self, file: BinaryFile) -> None:
        super().__init__(gzip.GzipFile(fileobj=cast("Any", file), mode="rb"))

    def _read(self) -> memoryview:
        try:
            # What is good is returned, and the next call fails.
            return memoryview(self._stream.read1(_PIECE_BYTES))
        except EOFError as error:
            raise _cut("gzip") from error
        except (gzip.BadGzipFile, zlib.error) as error:
            raise _damaged("gzip", error) from error


class _Zstd(_Compressed):
    """Frames one after another; up to one piece before damage is lost with it."""

    def __init__(self, file: BinaryFile) -> None:
        super().__init__(
            pa.CompressedInputStream(pa.PythonFile(cast("Any", file), mode="r"), "zstd")
        )

    def _read(self) -> memoryview:
        try:
            # When `read` fails, the bytes that it has allocated are never freed.
            return memoryview(self._stream.read_buffer(_PIECE_BYTES)).cast("B")
        except OSError as error:
            if error.errno is not None:  # of the file, not of what it holds
                raise
            if "Truncated" in str(error):
                raise _cut("zstd") from error
            raise _damaged("zstd", error) from error


def _fill(file: BinaryFile, view: memoryview, filled: int) -> int:
    while filled < len(view):
        count = file.readinto(view[filled:])
        if not count:
            break
        filled += count
    return filled


def _cut(form: str) -> TruncatedError:
    return TruncatedError(
        f"the {form} file ends early: it is still written to, or was cut when it was copied"
    )


def _damaged(form: str, error: Exception) -> FormatError:
    return FormatError(f"the {form} file is damaged", cause=str(error))
