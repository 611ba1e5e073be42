"""A stand-in for an OpenAI-compatible server on this machine."""

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from math import log

import pytest

from components.endpoint import ChatEndpoint


def completion(text, first=None, tokens=7):
    """The body of an answer; ``first`` are probabilities of first tokens."""
    choice = {
        "index": 0,
        "message": {"role": "assistant", "content": text},
        "finish_reason": "stop",
    }
    if first is not None:
        listed = [{"token": token, "logprob": log(p)} for token, p in first.items()]
        choice["logprobs"] = {"content": [{"token": text, "logprob": 0.0, "top_logprobs": listed}]}
    return {"choices": [choice], "usage": {"total_tokens": tokens}}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self):
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        server = self.server
        with server.lock:
            server.asked.append((self.path, asked))
            server.keys.append(self.headers["Authorization"])
            server.running += 1
            server.most = max(server.most, server.running)
        try:
            said = server.say(asked["messages"][-1]["content"])
            status, body = said if isinstance(said, tuple) else (200, said)
            body = body if isinstance(body, bytes) else json.dumps(body).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)
        except OSError:
            pass  # nobody listens any more
        finally:
            with server.lock:
                server.running -= 1

    def log_message(self, *_):
        """Nothing."""


class Server(ThreadingHTTPServer):
    def handle_error(self, *_):
        """Nothing: the other side may hang up."""


@pytest.fixture
def server():
    """``server.say`` is what it answers to a prompt; ``asked``, ``keys``, ``most`` at a time."""
    made = Server(("127.0.0.1", 0), Handler)
    made.daemon_threads = True
    made.lock, made.asked, made.keys, made.running, made.most = threading.Lock(), [], [], 0, 0
    made.say = completion
    thread = threading.Thread(target=made.serve_forever, args=(0.02,))
    thread.start()
    yield made
    made.shutdown()
    thread.join()
    made.server_close()


@pytest.fixture
def endpoint(server):
    """``endpoint(setting=...)`` asks that server; it waits little."""

    def made(**settings):
        url = f"http://127.0.0.1:{server.server_port}/v1"
        return ChatEndpoint(**{"url": url, "model": "m", "pause": 0.0, "timeout": 10.0, **settings})

    return made


def sleeping(seconds, text):
    time.sleep(seconds)
    return completion(text)
