"""Workers by tier, and stand-ins for a server, which the tests of the sandbox share."""

import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from rlcomp.sandbox.fork_server import start_pair
from rlcomp.sandbox.sandbox import Batch


@pytest.fixture(scope="session")
def run_in(needs: Callable[[str], None]) -> Iterator[Callable]:
    """``run_in(tier, job)`` gives the outcome, in a worker that all tests of a tier share."""
    workers = {}

    def run(tier, job):
        if tier not in workers:
            needs(tier)
            workers[tier] = [start_pair(tier)]
        return Batch(workers[tier], tier, [job]).run()[job]

    yield run
    for (worker,) in workers.values():
        worker.close()


class Fusion(BaseHTTPRequestHandler):
    """``POST /run_code`` as SandboxFusion answers it; programs run in a process without walls."""

    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append((self.path, asked))
        body = json.dumps(ran(asked)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Nothing."""


def ran(asked):
    """What its server tells of a program."""
    started, timeout = time.monotonic(), asked["run_timeout"]
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program.py"
        file.write_text(asked["code"])
        limited = f"ulimit -v {asked['memory_limit_MB'] * 1024}; exec {sys.executable} {file}"
        try:
            found = subprocess.run(
                ["sh", "-c", limited],
                input=asked["stdin"].encode(),
                capture_output=True,
                timeout=timeout,
                env={},
            )
        except subprocess.TimeoutExpired as late:
            found = late
    code = getattr(found, "returncode", None)
    result = {"status": "TimeLimitExceeded" if code is None else "Finished", "return_code": code}
    result["execution_time"] = time.monotonic() - started
    for name in ("stdout", "stderr"):
        result[name] = (getattr(found, name) or b"")[: 1 << 20].decode(errors="replace")
    told = {"status": "Success" if code == 0 else "Failed", "message": "", "compile_result": None}
    return {**told, "run_result": result, "executor_pod_name": None, "files": {}}


@pytest.fixture
def fusion():
    """A server of that kind: ``url``, and the requests that it was sent, ``asked``."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Fusion)
    server.asked, server.url = [], f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.05,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


class Saying:
    """A server that says certain bytes, one answer a connection, whatever it is asked."""

    def __init__(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.heard, self.answers, self.threads = [], [], []
        self.start(self.listen)

    def __call__(self, *answers):
        """Its address, from which this is said: the last to all that come later."""
        self.answers.extend(answers)
        return f"http://127.0.0.1:{self.socket.getsockname()[1]}"

    def start(self, function, *arguments):
        self.threads.append(threading.Thread(target=function, args=arguments))
        self.threads[-1].start()

    def listen(self):
        while True:
            try:
                connection, _ = self.socket.accept()
            except OSError:  # closed: the test is over
                return
            self.start(self.answer, connection)

    def answer(self, connection):
        with connection:
            connection.settimeout(5)
            self.heard.append(request(connection))
            pieces = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
            with contextlib.suppress(OSError):  # nobody listens any more
                for piece in [pieces] if isinstance(pieces, bytes) else pieces():
                    connection.sendall(piece)


@pytest.fixture
def saying():
    """``saying(answer, ...)`` is the address of such a server; an answer may come piece by piece.

    ``saying.heard`` are the requests.
    """
    server = Saying()
    yield server
    server.socket.shutdown(socket.SHUT_RDWR)
    server.socket.close()
    for thread in server.threads:
        thread.join()


def request(connection):
    """All of a request: its head, and as many bytes as that tells."""
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, body = data.partition(b"\r\n\r\n")
    (length,) = [line.split(b":")[1] for line in head.split(b"\r\n") if b"Content-Length" in line]
    while len(body) < int(length):
        body += connection.recv(65536)
    return head + b"\r\n\r\n" + body
