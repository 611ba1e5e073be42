import pytest

from components.reward.surface import ScriptConsistency


@pytest.mark.parametrize(
    ("prompt", "response", "share"),
    [
        ("abc>", "cba", 1.0),
        ("abc>", "абв", 0.0),
        ("абв>", "abв!", 1 / 3),
        ("abв>", "ab", 1.0),
        ("aв>", "ab в", 2 / 3),
        ("ab>", "a1漢", 0.5),
    ],
)
def test_letters_in_the_script_of_the_prompt_count(prompt, response, share):
    assert ScriptConsistency().score(prompt, response, "") == pytest.approx(share)


@pytest.mark.parametrize(("prompt", "response"), [("12>", "ab"), ("ab>", "12"), ("ab>", "")])
def test_without_letters_it_cannot_tell(prompt, response):
    assert ScriptConsistency().score(prompt, response, "") is None
