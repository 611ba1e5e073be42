import torch

from components.conditioning import PolicyPromptRows, TextPrefix
from components.objectives import MultiObjectiveReward
from components.pareto.scalarisation import LinearScalarisation
from components.reward.surface import Brevity
from components.sampler.demonstrations import Demonstrations
from components.worlds.sorting.task import Sorting
from rlcomp.batch import decode_texts, encode_texts
from rlcomp.text.rows import encode_rows
from rlcomp.text.tokenizer import character_tokenizer

TOKENIZER = character_tokenizer(characters="0123456789>:,")
TASK = Sorting(length=3)


def conditioned_demonstrations():
    torch.manual_seed(0)
    demonstrations = Demonstrations(task=TASK, tokenizer=TOKENIZER, batch_size=4, context_length=16)
    conditioning = TextPrefix(
        objectives=MultiObjectiveReward(
            parts={"b": Brevity(longest=4)}, aggregator=LinearScalarisation(weights=None)
        ),
        levels=12,
        template="{steps},",
        task=TASK,
        tokenizer=TOKENIZER,
        context_length=20,
        max_new_tokens=4,
    )
    return conditioning(demonstrations())


def test_demonstrations_stand_behind_the_preference_as_if_the_policy_had_been_asked():
    batch = conditioned_demonstrations()
    wanted = encode_rows(
        TOKENIZER, decode_texts(batch["policy_prompt"]), decode_texts(batch["answer"])
    )

    rows = PolicyPromptRows(tokenizer=TOKENIZER)(batch)

    for key in ("tokens", "attention_mask", "response_mask"):
        assert torch.equal(rows[key], wanted[key]), key
    assert torch.equal(rows["preference"], batch["preference"])


def test_rows_of_different_lengths_keep_only_what_is_theirs():
    prompts, answers = ["12>", "3>"], ["12", "34567"]
    asked = ["0,12,:12>", "12,0,:3>"]
    batch = encode_rows(TOKENIZER, prompts, answers)
    batch["prompt"], batch["answer"] = encode_texts(prompts), encode_texts(answers)
    batch["policy_prompt"] = encode_texts(asked)
    batch["preference"] = torch.tensor([[0.0, 1.0], [1.0, 0.0]])

    rows = PolicyPromptRows(tokenizer=TOKENIZER)(batch)

    wanted = encode_rows(TOKENIZER, asked, answers)
    for key in ("tokens", "attention_mask", "response_mask"):
        assert torch.equal(rows[key], wanted[key]), key


def test_holes_and_empty_responses_move_with_their_row():
    batch = conditioned_demonstrations()
    batch["response_mask"][0] = False
    batch["response_mask"][1, 5] = False
    before = batch["response_mask"].clone()

    rows = PolicyPromptRows(tokenizer=TOKENIZER)(batch)

    shift = len(decode_texts(batch["policy_prompt"])[1]) - len("123>")
    assert not bool(rows["response_mask"][0].any())
    assert rows["response_mask"][1, shift : shift + 8].tolist() == before[1].tolist()
