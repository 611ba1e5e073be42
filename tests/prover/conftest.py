"""A policy that says the same tactics whenever it is asked the same state."""

import pytest
import torch
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config
from rlcomp.engine.decoding import Decoding
from rlcomp.text.rows import rows_from_ids
from rlcomp.text.tokenizer import character_tokenizer, encode_all


class Scripted:
    """``says``: of each prompt what is sampled, in turn. Each token has log-prob -1/2."""

    context_length = None
    device = torch.device("cpu")
    version = 3
    decoding = Decoding()

    def __init__(self, tokenizer, says):
        self.tokenizer = tokenizer
        self.says = says

    def generate(self, prompts, *, group_size, max_new_tokens, **_):
        heads, tails, cut = [], [], []
        for ids in prompts:
            for tactic in self.says[self.tokenizer.decode(ids)][:group_size]:
                (written,) = encode_all(self.tokenizer, [tactic])
                written = [*written, self.tokenizer.eos_token_id]
                heads.append(list(ids))
                tails.append(written[:max_new_tokens])
                cut.append(len(written) > max_new_tokens)
        rows = rows_from_ids(self.tokenizer, heads, tails)
        rows["rollout_log_probs"] = rows["response_mask"] * -0.5
        rows["policy_version"] = rows["response_mask"] * self.version
        rows["group_id"] = torch.arange(len(heads)) // group_size
        rows["truncated"] = torch.tensor(cut)
        return rows

    def updated(self): ...

    def weights(self):
        return {}

    def log_probs(self, batch, weights=None, *, decoding=None): ...

    def __call__(self, batch): ...


@pytest.fixture(scope="session")
def tactics_tokenizer():
    config = compose_config(["recipe=sft", "tokenizer=tactics"]).tokenizer
    words = OmegaConf.to_container(config)
    return character_tokenizer(characters=words["characters"], words=words["words"])


@pytest.fixture
def scripted(tactics_tokenizer):
    return lambda says: Scripted(tactics_tokenizer, says)
