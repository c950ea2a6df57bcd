"""A way to a server on which something happens once so many bytes have come back."""

from __future__ import annotations

import threading
from collections.abc import Callable

from tests.fixtures.proxy import Proxy
from tests.services.iceberg_rest import RestCatalogServer
from tests.services.servers import Server


class Gate(Proxy):
    """A proxy that acts once, before it passes on what follows.

    Attributes:
        acted: Whether it has.
    """

    def __init__(self, server: Server | RestCatalogServer) -> None:
        self._to = server.host, server.port
        self._after = 0
        self._act: Callable[[], object] | None = None
        self._acting = threading.Lock()
        self.acted = False
        super().__init__(*self._to)

    def act_after(self, size: int, act: Callable[[], object]) -> None:
        """Call `act` when so many bytes have passed from now on, over all connections."""
        self._after, self._act, self.acted = self.passed + size, act, False

    def act_at(self, number: int, act: Callable[[], object]) -> None:
        """Call `act` when the connection of that number is opened, from 0 and from now on."""
        self.connections, self.acted = 0, False

        def lead(each: int) -> tuple[str, int]:
            if each == number and not self.acted:
                self.acted = True
                act()
            return self._to

        self.servers = lead

    def open_again(self) -> None:
        """Meddle no more; what has begun to happen has happened then."""
        with self._acting:
            self._act, self.servers = None, lambda _: self._to
        self.reset()

    def before_passing(self, size: int) -> None:
        """Act if it is time."""
        if self.acted:
            return
        with self._acting:
            act = self._act
            if act is not None and self.passed + size >= self._after:
                self._act, self.acted = None, True
                act()
