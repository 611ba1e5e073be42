"""Workloads: models with random weights, random prompts, answers with an end.

A random model ends its answers at no chosen rate. Here one direction of the residual stream is the
same in every token, and the row of EOS in the output head has a weight for that direction alone.
This weight is chosen so that the mean probability of EOS gives the wanted mean length. The lengths
are then nearly geometric, and alike for every engine, because all sample from the same weights.
"""

import random
import string
from dataclasses import dataclass

import torch
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast

from rlcomp import Decoding, LanguageModel, causal_lm, character_tokenizer
from rlcomp.engine.engine import Engine
from rlcomp.engine.memory import keep_freed_memory
from rlcomp.text.answers import answer_prompts

# S, M and tiny have a vocabulary of 62 characters, <pad> and <eos>; the others have WORDS.
SIZES = {
    "S": {
        "hidden_size": 128,
        "num_hidden_layers": 4,
        "num_attention_heads": 4,
        "num_key_value_heads": 4,
        "intermediate_size": 352,
    },
    "M": {
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "num_attention_heads": 6,
        "num_key_value_heads": 6,
        "intermediate_size": 928,
    },
    "L": {
        "hidden_size": 512,
        "num_hidden_layers": 8,
        "num_attention_heads": 8,
        "num_key_value_heads": 8,
        "intermediate_size": 1216,
    },
    # The sizes of Qwen2.5. The head is not tied to the embedding: it sets the probability of EOS.
    "0.5B": {
        "hidden_size": 896,
        "num_hidden_layers": 24,
        "num_attention_heads": 14,
        "num_key_value_heads": 2,
        "intermediate_size": 4864,
    },
    "1.5B": {
        "hidden_size": 1536,
        "num_hidden_layers": 28,
        "num_attention_heads": 12,
        "num_key_value_heads": 2,
        "intermediate_size": 8960,
    },
    # Only to see that a script runs.
    "tiny": {
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "intermediate_size": 32,
    },
}
# Words of the vocabulary.
WORDS = {"L": 32_000, "0.5B": 151_936, "1.5B": 151_936}
# How far the common direction stands out, in standard deviations of the embedding.
LEVEL = 8.0


@dataclass(frozen=True)
class Workload:
    """Prompts, groups and lengths.

    Attributes:
        size: name of the model's size, in :data:`SIZES`.
        prompts: number of prompts.
        group_size: answers to each prompt.
        shortest, longest: tokens of the shortest and of the longest prompt.
        max_new_tokens: most tokens of an answer.
        mean: mean tokens of an answer.
        kl: weight of the KL in a step.
        context: tokens the model can hold; None: the longest prompt and its longest answer.
    """

    size: str
    prompts: int
    group_size: int
    shortest: int
    longest: int
    max_new_tokens: int
    mean: float
    kl: float = 0.0
    context: int | None = None


ROLLOUTS = {
    "S": Workload("S", 8, 8, 128, 192, 128, 45),
    "M": Workload("M", 4, 8, 96, 128, 64, 20),
    "L": Workload("L", 4, 8, 96, 128, 96, 30),
    "hostile": Workload("S", 4, 4, 16, 32, 128, 72),
    "tiny": Workload("tiny", 2, 2, 4, 8, 8, 4),
}
STEPS = ROLLOUTS | {"L": Workload("L", 2, 8, 96, 128, 48, 24, kl=0.04)}


def tokenizer_of(size):
    """Return a tokenizer of 62 characters, or of words with spaces between them."""
    if size not in WORDS:
        return character_tokenizer(characters=string.ascii_letters + string.digits)
    names = ["<pad>", "<eos>", *(f"w{index}" for index in range(2, WORDS[size]))]
    backend = Tokenizer(models.WordLevel({name: index for index, name in enumerate(names)}))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, pad_token="<pad>", eos_token="<eos>", split_special_tokens=True
    )


def texts_of(workload, tokenizer, seed=0):
    """Return the prompts of a workload: random tokens, lengths drawn uniformly."""
    draw = random.Random(seed)
    names = tokenizer.convert_ids_to_tokens(list(range(2, len(tokenizer))))
    lengths = [draw.randint(workload.shortest, workload.longest) for _ in range(workload.prompts)]
    between = " " if workload.size in WORDS else ""
    return [between.join(draw.choices(names, k=length)) for length in lengths]


def model_of(workload, tokenizer):
    """Create the model, whose answers have about the workload's mean length."""
    torch.manual_seed(0)
    size = SIZES[workload.size]
    model = causal_lm(
        tokenizer=tokenizer,
        architecture="llama",
        context_length=workload.context or workload.longest + workload.max_new_tokens,
        overrides={"initializer_range": 0.5 / size["hidden_size"] ** 0.5},
        **size,
    ).eval()
    _end_answers(model, tokenizer, _rate(workload.mean, workload.max_new_tokens))
    return model


def build(workload, linear="auto"):
    """Return tokenizer, policy and prompts; ``linear`` is the engine's kernel of linear layers."""
    keep_freed_memory()  # as a run does; it also helps a peer in this process
    tokenizer = tokenizer_of(workload.size)
    policy = LanguageModel(
        model=model_of(workload, tokenizer),
        tokenizer=tokenizer,
        decoding=Decoding(),
        engine=Engine(linear=linear),
    )
    return tokenizer, policy, texts_of(workload, tokenizer)


def sampled(policy, texts, workload, seed):
    """Sample a rollout by rlcomp."""
    return answer_prompts(
        policy,
        texts,
        group_size=workload.group_size,
        max_new_tokens=workload.max_new_tokens,
        generator=torch.Generator().manual_seed(seed),
    )


def brevity(response):
    """Return the reward: minus the characters in hundreds, which differs within a group."""
    return -len(response) / 100


@torch.no_grad()
def _end_answers(model, tokenizer, rate):
    """Set embedding and head so that EOS has the mean probability ``rate``, and padding none."""
    embedding = model.get_input_embeddings().weight
    head = model.get_output_embeddings().weight
    embedding.normal_()
    embedding[:, 0] = LEVEL
    head[:, 0] = 0.0
    head[[tokenizer.eos_token_id, tokenizer.pad_token_id]] = 0.0
    head[tokenizer.pad_token_id, 0] = -30.0
    states = model.get_decoder()(torch.randint(2, len(tokenizer), (4, 64))).last_hidden_state
    logits = states @ head.T
    logits[..., tokenizer.eos_token_id] = -torch.inf
    others, common = logits.logsumexp(-1), states[..., 0]
    head[tokenizer.eos_token_id, 0] = _solve(
        lambda slope: float(torch.sigmoid(slope * common - others).mean()) - rate, -10.0, 10.0
    )


def _rate(mean, longest):
    """Return the probability of EOS at which answers of at most ``longest`` tokens have a mean."""
    return _solve(lambda rate: mean - (1 - (1 - rate) ** longest) / rate, 1e-6, 1.0)


def _solve(rising, low, high):
    """Return the root of a rising function between two bounds, by bisection."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < 0 else (low, middle)
    return (low + high) / 2
