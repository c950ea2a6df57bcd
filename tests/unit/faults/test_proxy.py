"""The proxy that cuts connections leaves nobody waiting."""

from __future__ import annotations

import select
import socket
from collections.abc import Callable
from contextlib import suppress

import pytest

from tests.fixtures.proxy import Proxy


class Drained(socket.socket):
    """Reads all that has arrived when it is shut down, as the proxy's other thread may."""

    def shutdown(self, how: int) -> None:
        super().shutdown(how)
        self.setblocking(False)
        with suppress(BlockingIOError):
            while self.recv(1 << 16):
                pass


def test_a_server_that_sends_notices_that_its_client_left(
    proxy_to: Callable[[str, int], Proxy], monkeypatch: pytest.MonkeyPatch
) -> None:
    connect = socket.create_connection

    def drained(address: tuple[str, int]) -> socket.socket:
        return Drained(fileno=connect(address).detach())

    monkeypatch.setattr(socket, "create_connection", drained)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        way = proxy_to(*listener.getsockname())
        way.hold_after = 0
        client = connect((way.host, way.port))
        server, _ = listener.accept()
    with server:
        server.settimeout(0.3)
        with suppress(TimeoutError):
            while server.send(bytes(1 << 16)):
                pass
        client.close()

        waiting = select.poll()
        waiting.register(server, select.POLLOUT)
        assert waiting.poll(5_000)
