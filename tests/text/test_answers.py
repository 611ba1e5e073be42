import pytest
import torch

from rlcomp.errors import ConfigError
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts, encode_answers


def test_one_text_is_no_list_of_prompts():
    policy, generator = tiny_policy(), torch.Generator()

    with pytest.raises(ConfigError, match=r"hand over a list of texts, \['12\+'\]"):
        answer_prompts(policy, "12+", group_size=1, max_new_tokens=2, generator=generator)
    with pytest.raises(ConfigError, match="the prompts are a text"):
        encode_answers(policy, "12", ["1", "2"])
