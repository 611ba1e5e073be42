"""The lookup agent against a policy of recorded sentences."""

import json
from http.server import BaseHTTPRequestHandler, HTTPServer
from threading import Thread

import pytest

from components.worlds.lookup.agent import agent, untold

EXAMPLE = {"prompt": "b:", "map": "507", "answer": "0."}


@pytest.fixture
def policy():
    """``policy("<b", "0.")``: its address, and the messages of each request that it had."""
    servers = []

    def start(*sentences):
        seen, left = [], list(sentences)

        class Recorded(BaseHTTPRequestHandler):
            def do_POST(self):
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                assert body["stop"] == [">"]
                seen.append([turn["content"] for turn in body["messages"]])
                said = {"choices": [{"message": {"content": left.pop(0)}}]}
                self.send_response(200)
                self.end_headers()
                self.wfile.write(json.dumps(said).encode())

            def log_message(self, *_):
                pass

        servers.append(HTTPServer(("127.0.0.1", 0), Recorded))
        Thread(target=servers[-1].serve_forever, daemon=True).start()
        return f"http://127.0.0.1:{servers[-1].server_port}", seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_it_asks_the_map_and_then_answers(policy):
    url, seen = policy("<b", "0.")

    assert agent(url, EXAMPLE) == 1.0
    assert seen == [["b:"], ["b:", "<b>", "0|"]]


def test_another_answer_is_wrong_and_a_letter_without_an_entry_is_a_question_mark(policy):
    url, seen = policy("say <d", "5.")

    assert agent(url, EXAMPLE) == 0.0
    assert seen[1] == ["b:", "say <d>", "?|"]


def test_after_eight_questions_it_is_over(policy):
    url, seen = policy(*["<b"] * 9)

    assert agent(url, EXAMPLE) == 0.0
    assert len(seen) == 8


def test_the_control_is_told_nothing(policy):
    url, seen = policy("<b", "0.")

    assert untold(url, EXAMPLE) == 1.0
    assert seen[1] == ["b:", "<b>", "?|"]
