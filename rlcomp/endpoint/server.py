"""HTTP server of the endpoint: on loopback only, with a limit on connections."""

from __future__ import annotations

import contextlib
import socket
import sys
import threading
from collections.abc import Iterator
from http.server import ThreadingHTTPServer
from typing import Any

from rlcomp.endpoint.handler import HttpLimits, RequestHandler, Route

_LOOPBACK = "127.0.0.1"


class Server(ThreadingHTTPServer):
    """Server on a free port of 127.0.0.1; the address is fixed.

    Args:
        route: answers the requests.
        limits: of requests.
    """

    daemon_threads = True
    block_on_close = False
    request_queue_size = 2048  # every agent of a large batch calls at once

    def __init__(self, route: Route, limits: HttpLimits) -> None:
        self.route, self.limits = route, limits
        self.error: BaseException | None = None
        self._free = threading.BoundedSemaphore(limits.connections)
        self._channels: set[Any] = set()
        super().__init__((_LOOPBACK, 0), RequestHandler)

    @property
    def address(self) -> str:
        """Return its URL."""
        return f"http://{_LOOPBACK}:{self.server_port}"

    def server_bind(self) -> None:
        """Bind, without looking up the name of the host."""
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = _LOOPBACK, int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer in a thread, unless there are too many connections."""
        if not self._free.acquire(blocking=False):
            self.shutdown_request(request)
            return
        self._channels.add(request)
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Answer, and count the connection as free again."""
        try:
            super().process_request_thread(request, client_address)
        finally:
            self._channels.discard(request)
            self._free.release()

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ANN401
        """Ignore a broken connection: it is no error."""

    def broke(self) -> None:
        """Store the first mistake of our own; it ends the rollout."""
        self.error = self.error or sys.exc_info()[1]

    def end(self) -> None:
        """Close the server and all connections."""
        self.shutdown()
        self.server_close()
        for channel in [*self._channels]:
            with contextlib.suppress(OSError):
                channel.shutdown(socket.SHUT_RDWR)


@contextlib.contextmanager
def serving(route: Route, limits: HttpLimits) -> Iterator[Server]:
    """Serve requests within a context."""
    server = Server(route, limits)
    thread = threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.end()
        thread.join()
