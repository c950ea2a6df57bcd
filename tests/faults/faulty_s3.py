"""A way to an S3 server that fails requests: it refuses, cuts, delays or forgets what it is to."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from tests.services.s3 import S3Server

_ERROR = (
    "<?xml version='1.0' encoding='UTF-8'?><Error><Code>{}</Code><Message>fault</Message></Error>"
)
_CODES = {500: "InternalError", 503: "SlowDown", 403: "AccessDenied"}
_HOP = {"connection", "keep-alive", "transfer-encoding", "content-length"}
_SLOW_SECONDS = 0.05

Fault = Callable[["Request"], str | None]


class Request:
    """What a client wants: a method, and a path with its query."""

    def __init__(self, method: str, path: str, number: int) -> None:
        self.method, self.path, self.number = method, path, number

    @property
    def lists(self) -> bool:
        """Whether it lists a folder."""
        return "list-type" in self.path


class FaultyS3:
    """Passes requests on to a server, but for those that `fault` names.

    `fault` returns for a request None, or

    - `500`, `503`, `403`: that is answered;
    - `cut`, `partial`: the connection is closed before the request is read, or half way;
    - `lost`: the request is passed on, and the answer is not;
    - `silent`: nothing is answered until `fault` is another one;
    - `slow`: the answer takes a while;
    - `stale`: the answer is what the same list was first.

    Attributes:
        endpoint: Its address.
        requests: How many there were.
    """

    def __init__(self, server: S3Server) -> None:
        self.fault: Fault = lambda _: None
        self.requests = 0
        self._lists: dict[str, tuple[int, list[tuple[str, str]], bytes]] = {}
        self._lock = threading.Lock()
        self._to = server
        self._listener = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._listener.daemon_threads = True
        self.endpoint = f"http://127.0.0.1:{self._listener.server_address[1]}"
        self._thread = threading.Thread(target=self._listener.serve_forever, daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Listen no more."""
        self.fault = lambda _: None
        self._listener.shutdown()
        self._listener.server_close()
        self._thread.join()

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def handle_one_request(self) -> None:
                try:
                    super().handle_one_request()
                except OSError:
                    # The client has left.
                    self.close_connection = True

            def log_message(self, format: str, *arguments: object) -> None:  # noqa: A002
                """Print nothing."""

            def answer(self) -> None:
                outer._answer(self)

            do_GET = do_PUT = do_HEAD = do_POST = do_DELETE = answer  # noqa: N815 - http.server's

        return Handler

    def _answer(self, handler: BaseHTTPRequestHandler) -> None:
        with self._lock:
            self.requests += 1
            request = Request(handler.command, handler.path, self.requests)
            fault, asked = self.fault(request), self.fault
        size = int(handler.headers.get("Content-Length") or 0)
        body = handler.rfile.read(size // 2 if fault == "partial" else size)
        if fault in ("cut", "partial"):
            handler.close_connection = True
        elif fault in ("500", "503", "403"):
            code = int(fault)
            _send(handler, code, [], _ERROR.format(_CODES[code]).encode())
        elif fault == "silent":
            while self.fault is asked:
                time.sleep(0.05)
            handler.close_connection = True
        else:
            if fault == "slow":
                time.sleep(_SLOW_SECONDS)
            answered = self._pass_on(handler, body)
            if request.lists:
                first = self._lists.setdefault(handler.path, answered)
                answered = first if fault == "stale" else answered
            if fault == "lost":
                handler.close_connection = True
                return
            _send(handler, *answered)

    def _pass_on(
        self, handler: BaseHTTPRequestHandler, body: bytes
    ) -> tuple[int, list[tuple[str, str]], bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._to.port, timeout=30)
        try:
            # The signature is over the host that the client knows.
            headers = dict(handler.headers.items())
            connection.request(handler.command, handler.path, body, headers)
            response = connection.getresponse()
            kept = [each for each in response.getheaders() if each[0].lower() not in _HOP]
            if handler.command == "HEAD":
                kept += [("Content-Length", response.headers.get("Content-Length", "0"))]
            return response.status, kept, response.read()
        finally:
            connection.close()


def _send(
    handler: BaseHTTPRequestHandler, code: int, headers: list[tuple[str, str]], body: bytes
) -> None:
    handler.send_response_only(code)
    for name, value in headers:
        handler.send_header(name, value)
    if handler.command != "HEAD":
        handler.send_header("Content-Length", str(len(body)))
    handler.end_headers()
    if handler.command != "HEAD":
        handler.wfile.write(body)


def once_each(fault: str) -> Fault:
    """Return what fails the first request of each kind."""
    failed: set[tuple[str, bool]] = set()

    def fail(request: Request) -> str | None:
        of = request.method, request.lists
        if of in failed or (fault in ("partial", "lost") and request.method != "PUT"):
            return None
        failed.add(of)
        return fault

    return fail
