"""A server that answers what a test scripts: each connection runs one script, in a thread."""

from __future__ import annotations

import contextlib
import socket
import struct
import threading
from typing import TYPE_CHECKING, Self

from tests.support.wire import lenenc, lenenc_bytes

if TYPE_CHECKING:
    import ssl
    from collections.abc import Callable, Sequence

OK = b"\0\0\0\x02\0\0\0"
EOF = b"\xfe\0\0\x02\0"

# PROTOCOL_41, SECURE_CONNECTION, PLUGIN_AUTH, PLUGIN_AUTH_LENENC_CLIENT_DATA, TRANSACTIONS
_CAPABILITIES = 0x0200 | 0x8000 | 0x0008_0000 | 0x0020_0000 | 0x2000
_TLS = 0x0800
_SALT = b"12345678abcdefghijkl"
_VARCHAR, _UTF8MB4 = 0xFD, 255


class Session:
    """One connection of a client.

    Attributes:
        received: The bodies of the packets that the client sent, in order.
    """

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self.received: list[bytes] = []
        self.sequence = 0

    def close(self) -> None:
        """Disconnect."""
        # close() alone would leave the client waiting: a script may have the socket, too.
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def raw(self, data: bytes) -> None:
        """Send bytes as they are."""
        self._socket.sendall(data)

    def packet(self, body: bytes) -> None:
        """Send a packet of the next sequence number."""
        self.raw(len(body).to_bytes(3, "little") + bytes([self.sequence % 256]) + body)
        self.sequence += 1

    def read(self) -> bytes:
        """Return the body of the client's next packet; the answer to it continues its numbers.

        Raises:
            ConnectionError: The client disconnected.
        """
        head = self._take(4)
        body = self._take(int.from_bytes(head[:3], "little"))
        self.sequence = head[3] + 1
        self.received.append(body)
        return body

    def _take(self, size: int) -> bytes:
        """Return the client's next bytes, and leave those that follow: TLS may begin there."""
        taken = b""
        while len(taken) < size:
            if not (part := self._socket.recv(size - len(taken))):
                raise ConnectionError
            taken += part
        return taken

    def greet(self, plugin: bytes = b"caching_sha2_password", version: bytes = b"9.7.0") -> bytes:
        """Send the greeting, and return what the client replies."""
        self.packet(greeting(plugin, version))
        return self.read()

    def greet_with_tls(self, context: ssl.SSLContext) -> bytes:
        """Offer TLS in the greeting, and return what the client replies under it.

        Raises:
            OSError: The client does not accept the certificate, or disconnected.
        """
        self.packet(greeting(b"caching_sha2_password", capabilities=_CAPABILITIES | _TLS))
        self.read()
        self._socket = context.wrap_socket(self._socket, server_side=True)
        return self.read()

    def log_in(self) -> None:
        """Let the client in, and answer what it says first; see `let_in`."""
        self.greet()
        self.let_in()

    def let_in(self) -> None:
        """Accept the login, and answer what is said first: SET NAMES, and SET SESSION limits."""
        self.packet(OK)
        for _ in range(2):
            self.read()
            self.packet(OK)

    def rows(self, names: Sequence[str], *rows: Sequence[str | None]) -> None:
        """Send a result set."""
        self.packet(lenenc(len(names)))
        for name in names:
            self.packet(column(name))
        self.packet(EOF)
        for row in rows:
            self.packet(row_of(row))
        self.packet(EOF)


def greeting(plugin: bytes, version: bytes = b"9.7.0", capabilities: int = _CAPABILITIES) -> bytes:
    """Return the body of a server's first packet."""
    low, high = capabilities & 0xFFFF, capabilities >> 16
    return (
        b"\x0a" + version + b"\0" + struct.pack("<I", 7) + _SALT[:8] + b"\0"
        + struct.pack("<HBHHB", low, _UTF8MB4, 2, high, 21) + bytes(10)
        + _SALT[8:] + b"\0" + plugin + b"\0"
    )  # fmt: skip


def column(name: str) -> bytes:
    """Return a column's definition; its type is VARCHAR."""
    texts = [b"def", b"", b"", b"", name.encode(), name.encode()]
    fixed = struct.pack("<HIBHBxx", _UTF8MB4, 1024, _VARCHAR, 0, 0)
    return b"".join(map(lenenc_bytes, texts)) + b"\x0c" + fixed


def row_of(values: Sequence[str | None]) -> bytes:
    """Return a row of a result set in text."""
    return b"".join(b"\xfb" if each is None else lenenc_bytes(each.encode()) for each in values)


def error(code: int, text: str) -> bytes:
    """Return an ERR packet."""
    return b"\xff" + struct.pack("<H", code) + b"#HY000" + text.encode()


class FakeServer:
    """Listens on loopback; use it as a context manager.

    Attributes:
        port: Where.
        sessions: One for each connection so far.
    """

    def __init__(self, *scripts: Callable[[Session], None]) -> None:
        """Run the scripts on connections in turn, the last one on all that follow."""
        self._scripts = scripts
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        self.sessions: list[Session] = []

    def __enter__(self) -> Self:
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        # close() alone would leave the thread in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            script = self._scripts[min(len(self.sessions), len(self._scripts) - 1)]
            # A client that leaves, and one that never reads, end the script, too.
            connection.settimeout(10)
            self.sessions.append(session := Session(connection))
            with contextlib.closing(session), contextlib.suppress(OSError):
                script(session)
