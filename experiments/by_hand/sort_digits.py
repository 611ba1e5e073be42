"""The demo without Hydra: ``python sort_digits.py DIRECTORY [SEED] [SFT_STEPS] [RL_STEPS]``."""

import sys
from functools import partial
from torch.optim import AdamW

from components import GroupMeanStd, GroupCollector, Accuracy, KLObserver, FixedKL
from components import Learner, KLLoss, PolicyLoss, TokenRatio, SequenceMean, TokenMean
from components import SFTLoss, Clip, RolloutLogProbs, FrozenReference, ExactMatch
from components import RewardCheck, Demonstrations, Uniform, Sorting
from rlcomp import JsonLines, LanguageModel, Make, Phase, Decoding, Schedule
from rlcomp import causal_lm, character_tokenizer, run_phases, summarise

directory, seed, sft_steps, rl_steps = [*sys.argv[1:], *["0", "75", "150"][len(sys.argv) - 2 :]]
make = Make(int(seed))
task = Sorting(length=6, held_out=0.1)
tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
heads = {"num_attention_heads": 4, "num_key_value_heads": 4, "context_length": 32}
size = {"hidden_size": 64, "num_hidden_layers": 2, "intermediate_size": 192, **heads}
model = make("model", causal_lm, tokenizer=tokenizer, **size)
policy = make("policy", LanguageModel, model=model, tokenizer=tokenizer, decoding=Decoding())
reward = make("reward", ExactMatch)
adamw = partial(AdamW, betas=(0.9, 0.95), weight_decay=0.0, fused=True)
evaluation = make("evaluation", Accuracy, policy=policy, task=task, reward=reward, max_new_tokens=8)
supervised = {"name": "sft_learner", "model": policy}
supervised |= {"losses": {"sft": SFTLoss(reduction=TokenMean())}}
data = {"task": task, "tokenizer": tokenizer, "context_length": 32}
warm_start = [make("demonstrations", Demonstrations, batch_size=128, **data)]
warm_start += [make("sft_learner", Learner, optimizer=partial(adamw, lr=2e-3), **supervised)]
loss = PolicyLoss(ratio=TokenRatio(), trust_region=Clip(), reduction=SequenceMean())
beta = make("kl_controller", FixedKL, kl_coef=0.04)
kl_loss = KLLoss(controller=beta, estimator="k3", reduction=loss.reduction)
linear = Schedule(name="linear", warmup=0.0667, final=0.1)
gradient = {"model": policy, "losses": {"policy": loss, "kl": kl_loss}, "schedule": linear}
rl = [
    make("prompts", Uniform, batch_size=64, max_new_tokens=8, **data),
    make("rollout", GroupCollector, policy=policy, group_size=16, max_new_tokens=8),
    *(reward, RewardCheck(), RolloutLogProbs(), make("reference", FrozenReference, policy=policy)),
    *(make("kl", KLObserver, controller=beta, estimator="k1"), GroupMeanStd()),
    make("learner", Learner, optimizer=partial(adamw, lr=5e-4), num_minibatches=4, **gradient),
]
phases = {"warm_start": Phase(int(sft_steps), warm_start, {"evaluation": (75, evaluation)})}
phases["rl"] = Phase(int(rl_steps), rl, {"evaluation": (25, evaluation)})
run_phases(phases, nodes=make.nodes, seed=int(seed), trackers=[JsonLines(directory=directory)])
print(summarise(directory))
