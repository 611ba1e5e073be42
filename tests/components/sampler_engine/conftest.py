"""A stand-in for a completions server on this machine, and a request to it."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from components.sampler_engine.server import ServerEngine
from rlcomp.engine.decoding import Decoding
from rlcomp.interfaces.sampler_engine import SamplingRequest

UPDATE = [{"path": "/weights", "body": {"folder": "{folder}", "version": "{version}"}}]


def request(**changes):
    """Two responses of at most 3 tokens to each of two prompts; 1 ends them, 0 is never drawn."""
    return SamplingRequest(
        **{
            "prompts": [[5, 6], [7]],
            "group_size": 2,
            "max_new_tokens": 3,
            "decoding": Decoding(),
            "stops": [1],
            "suppressed": [0],
            "vocabulary": 10,
            "seed": 11,
            "version": 4,
            **changes,
        }
    )


def choice(index, tokens, log_probs, finish, **more):
    return {
        "index": index,
        "token_ids": tokens,
        "logprobs": {"token_logprobs": log_probs},
        "finish_reason": finish,
        **more,
    }


def reply(**changes):
    """What a sound server says to either prompt: one response that ends, one that is cut."""
    return {
        "weight_version": "4",
        "choices": [
            choice(0, [8, 1], [-0.5, -0.25], "stop"),
            choice(1, [8, 9, 2], [-1.0, -2.0, -3.0], "length"),
        ],
        "usage": {"completion_tokens": 5},
        **changes,
    }


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        server, body = self.server, self.rfile.read(int(self.headers["Content-Length"]))
        asked = json.loads(body)
        with server.lock:
            server.asked.append((self.path, asked))
            number = len(server.asked)
            server.running += 1
            server.most = max(server.most, server.running)
        try:
            said = server.say(self.path, asked, number)
        finally:  # before the client hears of it, and asks for more
            with server.lock:
                server.running -= 1
        try:
            status, sent = said if isinstance(said, tuple) else (200, said)
            sent = sent if isinstance(sent, bytes) else json.dumps(sent).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(sent)))
            self.end_headers()
            self.wfile.write(sent)
        except OSError:
            pass  # nobody listens any more

    def log_message(self, *_):
        """Nothing."""


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Nothing: the other side may hang up."""


@pytest.fixture
def server():
    """It answers with :func:`reply`; a test changes ``say(path, body, number of the request)``.

    ``asked`` holds paths and bodies, ``most`` how many requests were under way at a time.
    """
    made = Server(("127.0.0.1", 0), Handler)
    made.lock, made.asked, made.running, made.most = threading.Lock(), [], 0, 0
    made.say = lambda path, asked, number: reply()
    made.url = f"http://127.0.0.1:{made.server_port}/v1"
    threading.Thread(target=made.serve_forever, args=(0.02,), daemon=True).start()
    yield made
    made.shutdown()
    made.server_close()


@pytest.fixture
def engine(server, tmp_path):
    """Makes a client of the server."""

    def make(**changes):
        given = {"model": "m", "folder": str(tmp_path / "weights"), "update": [], "pause": 0.0}
        return ServerEngine(**{"url": server.url, **given, **changes})

    return make
