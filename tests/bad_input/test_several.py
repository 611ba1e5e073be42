"""Several values or options where one counts, and options at the path of their part."""

import pytest

from rlcomp.errors import ConfigErrors

WHOLE = "the whole line: rlcomp "


@pytest.mark.usefixtures("no_model")
@pytest.mark.parametrize(
    ("line", "parts"),
    [
        (
            ["advantage=[leave_one_out,group_mean]", "seed=3"],
            ["only the last would count", f"{WHOLE}-m advantage=leave_one_out,group_mean seed=3"],
        ),
        (["loss=[grpo, dapo]"], ["loss takes one option", f"{WHOLE}-m loss=grpo,dapo"]),
        (["recipe=[grpo,dapo]"], ["recipe takes one option", f"{WHOLE}-m recipe=grpo,dapo"]),
        (["kl=[in_loss,in_reward]"], ["write kl=in_loss, or a sweep of them"]),
        (["loss/reduction=[token_mean,sequence_mean]"], ["loss/reduction takes one option"]),
        (["tracker=[wandb,tensorboard]"], ["write tracker=wandb or tracker=tensorboard\n"]),
        (["tracker=wandb,tensorboard"], ["write tracker=wandb or tracker=tensorboard\n"]),
        (
            ["recipe=grpo,dapo", "seed=0,1,2", "group_size=4"],
            [f"{WHOLE}-m recipe=grpo,dapo seed=0,1,2 group_size=4 directory="],
        ),
        (
            ["seed=0,1", "recipe=dapo"],
            ["a sweep, rlcomp -m seed=0,1\n", f"{WHOLE}-m seed=0,1 recipe=dapo directory="],
        ),
        (
            ["prompt=chat", "prompt.system=You think: first, then answer."],
            [
                "a text has quotes, 'prompt.system=\"You think: first, then answer.\"'\nthe whole "
                "line: rlcomp prompt=chat 'prompt.system=\"You think: first, then answer.\"' dir"
            ],
        ),
        (
            ["learner.optimizer.lr=1e-4,"],
            ["leave that out: learner.optimizer.lr=1e-4\n", f"{WHOLE}learner.optimizer.lr=1e-4 "],
        ),
        (
            ["loss/weight=tis,overlong"],
            ["rlcomp -m loss", "brackets, 'loss/weight=[tis,overlong]'\n"],
        ),
        (["seed=[0,1]"], ["seed is [0, 1]: must be", "rlcomp -m seed=0,1\n"]),
        (
            ["learner.epochs=[1,2]"],
            ["must be an integer; a sweep", "rlcomp -m learner.epochs=1,2\n"],
        ),
        (
            ["reward=[last_number,think_format]", "seed=3"],
            [
                " reward=weighted_sum +reward@reward.parts.last_number=last_number "
                "+reward@reward.parts.think_format=think_format "
                "'reward.weights={last_number: 1.0, think_format: 1.0}' "
                "reward.correct_by=last_number\n"
            ],
        ),
        (
            ["reward=[exact_match,brevity]"],
            ["the whole line: ", "'reward.parts.brevity.longest=${max_new_tokens}'\n"],
        ),
        (
            ["reward=[exact_match,regex]"],
            ["the line, with your REGEX_PATTERN: ", "reward.parts.regex.pattern=REGEX_PATTERN\n"],
        ),
        (
            [
                "reward=weighted_sum",
                "reward.rewards=[boxed,brevity]",
                "reward.weights=[1.0,-2e-1]",
                "reward.correct_by=brevity",
            ],
            ["'reward.weights={boxed: 1.0, brevity: -2e-1}' reward.correct_by=brevity "],
        ),
        (
            ["reward=weighted_sum", "reward.parts={one: boxed, two: brevity}"],
            ["+reward@reward.parts.one=boxed +reward@reward.parts.two=brevity"],
        ),
        (
            ["reward_funcs=[boxed,brevity]"],
            [" reward=weighted_sum +reward@reward.parts.boxed=boxed +"],
        ),
        (["learner.schedule=cosine"], ["by schedule@learner.schedule=cosine\n"]),
        (["learner.scheduler=cosine"], ["did you mean schedule@learner.schedule=cosine?\n"]),
        (["learner/schedule=cosine"], ["by schedule@learner.schedule=cosine\n"]),
        (["learner.optimizer=adam"], ["optimizer@learner.optimizer=OPTION; did you mean 'adamw'?"]),
        (["loss.trust_region=dual_clip"], ["by loss/trust_region=dual_clip\n"]),
        (["learner.losses.kl=kl_full"], ["by loss@learner.losses.kl=kl_full\n"]),
    ],
)
def test_the_message_has_the_line_that_works(told, line, parts):
    code, message, _ = told(*line)

    assert code == 2
    assert message.startswith(f"rlcomp: {line[0].partition('=')[0].partition('.')[0]}")
    for part in parts:
        assert part in message


@pytest.mark.parametrize(
    "words",
    [
        ["loss/weight=[tis,overlong]", "old_log_probs=recomputed"],
        ["measure=[coverage,perplexity]"],
        ["advantage=[group_mean]"],
        ["engine=portable", "model.name=none"],
    ],
)
def test_lists_and_texts_that_mean_something_are_taken(words):
    from rlcomp.config.choices import check_choices

    check_choices(words, [])


def test_of_parts_of_ones_own_one_counts_as_well(tmp_path):

    from rlcomp.config.choices import check_choices

    (tmp_path / "advantage").mkdir()
    (tmp_path / "advantage" / "mine.yaml").write_text("_target_: my.Mine\n")
    with pytest.raises(ConfigErrors, match="advantage takes one option"):
        check_choices(["advantage=[group_mean,mine]"], [str(tmp_path)])


@pytest.mark.filterwarnings("default")
def test_a_choice_that_stands_twice_is_told_once(rlcomp, capsys):
    assert rlcomp("recipe=grpo", "recipe=gspo", "seed=1", "seed=1", "--cfg", "job") == 0

    assert capsys.readouterr().err == (
        "rlcomp: recipe is chosen twice, and the last counts, recipe=gspo; a sweep of both is "
        "rlcomp -m recipe=grpo,gspo\n"
    )


def test_two_recipes_described_are_compared_otherwise(monkeypatch, capsys):
    from rlcomp.cli.describe import main

    monkeypatch.setattr("sys.argv", ["rlcomp-describe", "recipe=grpo", "recipe=gspo"])
    with pytest.raises(SystemExit) as leaving:
        main()

    out, err = capsys.readouterr()
    compare = "to compare: rlcomp-describe recipe=grpo --against recipe=gspo"
    assert (leaving.value.code, out) == (2, "")  # what counts alone is not described
    assert err.endswith(f"recipe=gspo; {compare}\n")
