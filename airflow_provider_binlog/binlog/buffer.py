"""MySQL's little-endian primitives in one complete event.

A read returns a value or raises `TruncatedError`; decoders need no length checks of their own.

Source: mysql-server, libs/mysql/binlog/event/event_reader.h; for the self-describing
integers of GTID_TAGGED, libs/mysql/serialization/byte_count_helpers.h.
"""

from __future__ import annotations

from airflow_provider_binlog.errors import FormatError, TruncatedError

# First byte of a length-encoded integer -> width in bytes of what follows.
# 0xFB (NULL in result sets) and 0xFF start no integer.
_LENENC_WIDTH = {0xFC: 2, 0xFD: 3, 0xFE: 8}


class Buffer:
    """A position moving forward over `data`.

    Slices are views: they cost no copy and keep the whole event alive.
    """

    __slots__ = ("_data", "_offset")

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)
        self._offset = 0

    @property
    def offset(self) -> int:
        """Bytes already read."""
        return self._offset

    @property
    def remaining(self) -> int:
        """Bytes not yet read."""
        return len(self._data) - self._offset

    def take(self, size: int) -> memoryview:
        """Return the next `size` bytes."""
        if size > self.remaining:
            raise TruncatedError(
                "event ends early", at=self._offset, wanted=size, left=self.remaining
            )
        start = self._offset
        self._offset += size
        return self._data[start : self._offset]

    def rest(self) -> memoryview:
        """Return all bytes not yet read."""
        return self.take(self.remaining)

    def uint(self, width: int) -> int:
        """Return the next `width` bytes as an unsigned integer."""
        return int.from_bytes(self.take(width), "little")

    def sint(self, width: int) -> int:
        """Return the next `width` bytes as a signed integer."""
        return int.from_bytes(self.take(width), "little", signed=True)

    def lenenc(self) -> int:
        """Return the next length-encoded integer: 1, 3, 4 or 9 bytes on the wire.

        Raises:
            FormatError: The first byte is 0xFB or 0xFF, which start no integer.
        """
        first = self.uint(1)
        if first < 0xFB:
            return first
        if first not in _LENENC_WIDTH:
            raise FormatError("not a length-encoded integer", first_byte=hex(first))
        return self.uint(_LENENC_WIDTH[first])

    def lenenc_bytes(self) -> memoryview:
        """Return the bytes after a length-encoded length."""
        return self.take(self.lenenc())

    def terminated(self, size: int) -> memoryview:
        """Return the next `size` bytes, and skip the NUL after them."""
        value = self.take(size)
        last = self.uint(1)
        if last != 0:
            raise FormatError("a name does not end with NUL", at=self._offset - 1, byte=hex(last))
        return value

    def varlen_uint(self) -> int:
        """Return the next self-describing unsigned integer: 1 to 9 bytes on the wire.

        As many 1-bits end the first byte as bytes follow it. Up to 8 bytes in all, the value
        is above those bits and the 0-bit after them. With 9 bytes, the first is those bits alone.
        """
        first = self.uint(1)
        following = (~first & (first + 1)).bit_length() - 1
        if following == 8:
            return self.uint(8)
        whole = first | self.uint(following) << 8
        return whole >> (following + 1)

    def varlen_sint(self) -> int:
        """Return the next self-describing signed integer: the sign in the lowest bit."""
        value = self.varlen_uint()
        return -1 - (value >> 1) if value & 1 else value >> 1
