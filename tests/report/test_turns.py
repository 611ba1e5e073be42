"""Episodes in the report: turns, observations, what was paid, what the environment told."""

from rlcomp.cli.report import report
from rlcomp.report.rollouts import group_samples

ROW = {
    "prompt": "a2=",
    "response": "c",
    "phase": "rl",
    "step": 3,
    "total": 3,
    "group_id": 0,
    "tokens": ["<a", ">", "b", "|", "c", "."],
    "trained": [1, 1, 0, 0, 1, 1],
    "turn": [0, 0, -1, -1, 1, 1],
    "turn_reward": [0.0, 0.25, 0.0, 0.0, 0.0, 0.0],
    "advantage": [0.5, 1.5, None, None, -1.0, -1.0],
    "reward": 1.0,
    "facts": {"cost": 2.5, "failures": 0.0, "missing": None},
}


def pieces(row):
    (step,), _ = group_samples([row])
    return step.prompts[0].answers[0].pieces


def test_an_episode_is_shown_turn_by_turn():
    first, heard, last = pieces(ROW)

    assert [token.text for token in heard.tokens] == ["b", "|"]
    assert (first.from_environment, heard.from_environment, last.from_environment) == (
        False,
        True,
        False,
    )
    # Rewards of a turn add up, advantages are averaged; a reward of 0 is not told.
    assert first.title == "turn 1, reward 0.25, advantage 1"
    assert (heard.title, last.title) == ("environment", "turn 2, advantage -1")


def test_an_answer_without_turns_is_one_piece():
    plain = {key: value for key, value in ROW.items() if not key.startswith("turn")}

    (piece,) = pieces(plain)
    assert (piece.title, piece.from_environment, len(piece.tokens)) == ("", False, 6)
    assert pieces({**plain, "tokens": [], "trained": [], "advantage": []}) == []


def test_what_is_left_out_belongs_to_the_last_turn():
    long = ROW | {name: ROW[name] * 500 for name in ("tokens", "trained", "turn")}
    long |= {"turn_reward": None, "advantage": None}
    *_, last = pieces(long)

    assert last.tokens[-1].text == " … (1,000 tokens more)"
    assert sum(len(piece.tokens) for piece in pieces(long)) == 2001


def test_the_page_shows_turns_and_facts(make_run, tmp_path):
    make_run("one", [{"reward/mean": 1.0}], samples=[ROW])
    report([str(tmp_path)], None, None, [])
    page = (tmp_path / "report.html").read_text()

    assert '<div class="environment"><span class="faint">environment</span>' in page
    assert "turn 1, reward 0.25, advantage 1" in page
    # What a tool said is no masked token of the policy.
    assert 'title="masked: not trained on">b<' in page
    assert 'class="t masked"' not in page.split('id="answers"')[1]
    assert "cost 2.5" in page
    assert "failures" not in page


def test_a_turn_for_each_token_or_none(make_run, tmp_path, recwarn):
    make_run("one", [{"reward/mean": 1.0}], samples=[ROW | {"turn": [0]}])
    report([str(tmp_path)], None, None, [])

    assert "'turn' is [0]: must have 6 entries, one per token" in str(recwarn[0].message)
