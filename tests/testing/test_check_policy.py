"""``check_policy`` passes our policies and catches what breaks each of its laws."""

import pytest
import torch

from rlcomp.engine.decoding import Decoding
from rlcomp.errors import ContractError
from rlcomp.model.language_model import LanguageModel
from rlcomp.testing import check_policy, tiny_policy


@pytest.mark.parametrize("decoding", [Decoding(), Decoding(temperature=0.7, top_p=0.9)])
def test_a_language_model_keeps_the_contract(decoding):
    policy = tiny_policy(decoding=decoding, scale=4.0)
    before = {name: value.clone() for name, value in policy.state_dict().items()}

    check_policy(policy)

    assert policy.version == 0
    assert all(torch.equal(value, before[name]) for name, value in policy.state_dict().items())


def test_the_error_names_the_missing_members():
    class Half:
        tokenizer = decoding = context_length = device = version = weights = None

        def generate(self): ...

    with pytest.raises(
        ContractError, match=r"^Half breaks 'it has .*it lacks updated, log_probs, __call__"
    ):
        check_policy(Half())


class OtherOrder(LanguageModel):
    def generate(self, prompts, **how):
        return super().generate(prompts[::-1], **how)


class Longer(LanguageModel):
    def generate(self, prompts, *, max_new_tokens, **how):
        return super().generate(prompts, max_new_tokens=max_new_tokens + 4, **how)


class OldVersion(LanguageModel):
    def generate(self, prompts, **how):
        rows = super().generate(prompts, **how)
        return rows.set("policy_version", rows["policy_version"] - 1)


class OwnSeed(LanguageModel):
    def generate(self, prompts, *, generator, **how):
        return super().generate(prompts, generator=self.draw, **how)

    draw = torch.Generator()


class DrawsAll(LanguageModel):
    def generate(self, prompts, *, suppressed_tokens=(), **how):
        return super().generate(prompts, **how)


class Hotter(LanguageModel):
    def log_probs(self, batch, weights=None, *, decoding=None):
        return super().log_probs(batch, weights, decoding=Decoding(temperature=2.0))


class OutsideToo(LanguageModel):
    def log_probs(self, batch, weights=None, *, decoding=None):
        found = super().log_probs(batch, weights, decoding=decoding)
        return torch.where(batch["response_mask"], found, -1.0)


class Improper(LanguageModel):
    """Log-probs of random weights lie around -3: of these some lie between 0 and 1."""

    def generate(self, prompts, **how):
        rows = super().generate(prompts, **how)
        raised = rows["rollout_log_probs"] + 2.6 * rows["response_mask"]
        return rows.set("rollout_log_probs", raised)

    def log_probs(self, batch, weights=None, *, decoding=None):
        found = super().log_probs(batch, weights, decoding=decoding)
        return found + 2.6 * batch["response_mask"]


class Detached(LanguageModel):
    def forward(self, batch):
        batch = super().forward(batch)
        return batch.set("log_probs", batch["log_probs"].detach())


class NoEntropy(LanguageModel):
    def forward(self, batch):
        return super().forward(batch).exclude("entropy")

    writes = ("log_probs",)


class NegativeEntropy(LanguageModel):
    def forward(self, batch):
        batch = super().forward(batch)
        return batch.set("entropy", -batch["entropy"])


class OneNegativeEntropy(LanguageModel):
    def forward(self, batch):
        batch = super().forward(batch)
        last = batch["response_mask"].nonzero()[-1]
        entropy = batch["entropy"].index_put(tuple(last), torch.tensor(-1.0))
        return batch.set("entropy", entropy)


class OwnWeightsOnly(LanguageModel):
    def log_probs(self, batch, weights=None, *, decoding=None):
        return super().log_probs(batch, decoding=decoding)


class CopiesWeightsIn(LanguageModel):
    def log_probs(self, batch, weights=None, *, decoding=None):
        for name, value in self.weights().items() if weights is not None else ():
            value.data.copy_(weights[name])
        return super().log_probs(batch, decoding=decoding)


class NeverUpdated(LanguageModel):
    def updated(self): ...


class Forgetful(LanguageModel):
    count = 0

    def updated(self):
        self.count += 1

    @property
    def version(self):
        return self.count


BROKEN = {
    OtherOrder: "generate answers every prompt in order",
    Longer: "generate answers every prompt in order",
    OldVersion: "policy_version is the version that sampled",
    OwnSeed: "the same seed gives the same rows",
    DrawsAll: "a suppressed token is not drawn",
    Hotter: "log_probs are what sampling recorded",
    OutsideToo: "log_probs are 0 outside the response",
    Improper: "no log-prob is above 0",
    Detached: "its log_probs have a gradient",
    NoEntropy: "as a stage it writes log_probs and entropy",
    NegativeEntropy: "no entropy is below 0",
    OneNegativeEntropy: "no entropy is below 0",
    OwnWeightsOnly: "other weights are used in place of its own",
    CopiesWeightsIn: "other weights leave its own alone",
    NeverUpdated: "updated counts one more",
    Forgetful: "the version is part of a checkpoint",
}


@pytest.mark.parametrize("broken", BROKEN, ids=lambda cls: cls.__name__)
def test_a_broken_policy_is_caught_by_its_law(broken):
    sound = tiny_policy(scale=4.0)
    policy = broken(
        model=sound.model,
        tokenizer=sound.tokenizer,
        decoding=sound.decoding,
        engine=sound.engine,
    )

    with pytest.raises(ContractError) as caught:
        check_policy(policy)

    assert str(caught.value).startswith(f"{broken.__name__} breaks '{BROKEN[broken]}'")
