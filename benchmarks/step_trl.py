"""GRPO steps by TRL's trainer, one at each turn: started by ``step.py``."""

import sys

import torch
from peer_trl import trainer_of
from transformers import TrainerCallback
from turn import Turns
from workloads import STEPS, model_of, texts_of, tokenizer_of


class TakeTurns(TrainerCallback):
    """Callback that ends a turn after each step, waits for the next one, and seeds its sampling."""

    def __init__(self, turns):
        self.turns = turns
        self.trainer = None

    def begin(self):
        """Wait for the next turn, and seed its sampling."""
        torch.manual_seed(self.turns.begin())

    def on_step_end(self, args, state, control, **kwargs):
        """End the turn; begin the next one if there is one."""
        # The trainer records the mean length of the batch of this step.
        mean = self.trainer._metrics["train"]["completions/mean_length"][-1]
        if self.turns.end(round(mean * args.per_device_train_batch_size)):
            self.begin()


def main(name, steps):
    """Run a step at each turn."""
    torch.set_num_threads(1)
    workload, turns = STEPS[name], Turns(steps)
    tokenizer = tokenizer_of(workload.size)
    model, texts = model_of(workload, tokenizer), texts_of(workload, tokenizer)
    callback = TakeTurns(turns)
    trainer = trainer_of(model, tokenizer, texts, workload, steps=steps, callbacks=[callback])
    callback.trainer = trainer
    callback.begin()
    trainer.train()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
