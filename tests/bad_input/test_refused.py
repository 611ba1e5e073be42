"""Settings that Hydra or a library would take, and that cannot be meant: code 2, no model built.

``test_messages.py`` holds one of each kind, with its whole message; here the kinds meet more
places.
"""

import shlex

import pytest

# A command line, and what its message says.
NAMED = {
    "learner.losses={}": "learner.losses={}: this changes nothing",
    "~learner.losses.policy ~learner.losses.kl": "learner.losses is {}: must not be empty",
    "phases.rl.steps=0 phases.warm_start.steps=0": "every phase has steps 0 (warm_start, rl)",
    "decoding.temperature=inf": "decoding.temperature is inf: must be finite",
    "learner.optimizer.lr=inf": "learner.optimizer.lr is inf: must be finite",
    "learner.optimizer.lr=1e30": "learner.optimizer.lr is 1e30: must be at most 100",
    "phases.rl.stages=[prompts,checkpoint]": "checkpoint (Checkpoint) is no stage: it has no "
    "forward; take it out of the list, and say how often with every.checkpoint",
    "loss=null": "loss=null: an option is a name, and this is null: choose an option by name",
    "~learner": "'learner' has only losses, num_minibatches, optimizer, no part with a _target_",
    "'directory=${oc.env:NOPE}'": "directory: the environment variable NOPE is not set; set it, or",
    "-cd yamls/colon reward=broken": "broken.yaml: mapping values are not allowed here",
    "model=pretrained model.path=own 'tokenizer.characters=\"9876543210+-*/=()>: ,?\"'": "the "
    "model at 'own' has another one: its token 2 is '0' (11 in this one); choose "
    "tokenizer=pretrained tokenizer.path=own",
}
FOUND = {
    # Hydra's own grammar.
    "=3": "there is no key before the =",
    "seed": "seed: cannot be read",
    "'seed=0 group_size=3'": "the value needs quotes",
    "'prompts.batch_size=${model'": "the value needs quotes",
    "-m seed=range(0,0)": "seed=range(0,0): the sweep has no values",
    "-m seed=shuffle(range(0,1000000000))": "the sweep has 1,000,000,000 jobs, more than 10,000",
    "-m seed=range(0,1000000000)": "the sweep has 1,000,000,000 jobs, more than 10,000",
    "-m seed=range(0,5000) group_size=2,3,4": "seed=range(0,5000): the sweep has 15,000 jobs",
    "-cn nope": "configs are chosen by name, recipe=NAME",
    "recipe=../../etc/passwd": "there is no such option",
    "+seed=3": "An item is already at 'seed'",
    "seed.x=3": "seed.x is not in the config",
    "~seed": "~seed: every run has seed; leave this out, or set seed=...",
    "~directory": "~directory: every run has directory",
    "~device": "~device: every run has device",
    "~resume": "~resume: every run has resume",
    "~trust": "~trust: every run has trust",
    "task=null": "task=null: an option is a name",
    "checkpoint=null": "checkpoint=null: an option is a name",
    "filter=null": "filter=none leaves it out",
    "kl=true": "kl=true: an option is a name, and this is of type bool",
    "advantage={}": "advantage={}: this changes nothing",
    "task={}": "task={}: this changes nothing",
    "phases={}": "phases={}: this changes nothing",
    "'seed=${oc.env:NOPE}'": "seed is ${oc.env:NOPE}: the environment variable NOPE is not set",
    # A user's own yamls.
    "-cd nowhere reward=exact_match": "nowhere: there is no such folder",
    "-cd yamls/bytes reward=broken": "broken.yaml: 'utf-8' codec can't decode byte 0xff",
    "-cd yamls/empty reward=broken": "'reward' is {}, no part with a _target_",
    "-cd yamls/list reward=broken": "'reward' is [1, 2], no part with a _target_",
    "-cd yamls/twice reward=broken": "found duplicate key a",
    "-cd yamls/circle reward=broken": "an alias (*name) refers to a node that contains it",
    "-cd yamls/python reward=broken": "could not determine a constructor for the tag",
    "-cd yamls/default reward=broken": "Could not load 'reward/nope'",
    # Phases.
    "~phases.rl.stages": "phases.rl.stages is None: must be a list of node names",
    "~phases.rl.steps": "phases.rl.steps is None: must be an integer",
    "phases.rl.stages=learner": "phases.rl.stages is 'learner': must be a list",
    "phases.rl.stages=[[prompts]]": "it is ['prompts'], no part with a _target_",
    "phases.rl.stages=[null]": "it is None, no part with a _target_",
    "phases.rl.stages=[phases]": "'phases' has only warm_start, rl, no part",
    "phases.rl.steps=1e9": "phases.rl.steps is 1e9: must be an integer; "
    "set phases.rl.steps=1000000000\n",
    "phases.rl.steps=true": "phases.rl.steps is True: must be an integer",
    "phases.rl.every=3": "phases.rl.every is 3: must be {evaluation: 25}",
    "phases.rl.every.evaluation=true": "must be a number of steps, or null",
    "+phases.x={steps:3}": "phases.x.stages is None: must be a list of node names",
    # Parts.
    "+reward._partial_=true": "'reward' has _partial_: true, so it is no stage; delete that",
    "+reward._partial_=7": "reward._partial_ is 7: must be true or false",
    "+reward._keys_=3": "reward._keys_ is 3: must be a mapping of keys",
    "+reward._keys_.reward=null": "reward._keys_.reward is None: must be the name of a key",
    "+reward._keys_.reward=''": "reward._keys_.reward is '': must be the name of a key",
    "reward._target_=3": "reward._target_ is 3: must be package.module.Name",
    "~reward._target_": "'reward' has only where, strip, column, no part with a _target_",
    "learner.optimizer=null": "learner.optimizer is None: must be a function",
    "learner.optimizer._target_=torch.optim.Nope": "'torch.optim' has no 'Nope'",
    "loss.reduction=token_mean": "it is a part: choose an option of it by loss/reduc",
    "loss.trust_region=null": "trust_region is None: must be a Component",
    # Numbers.
    "seed=1e400": "seed is inf: must be an integer",
    "seed=true": "seed is True: must be an integer",
    "trust=maybe": "trust is 'maybe': must be true or false",
    "group_size=1000000000": "a batch would have 64000000000 rows, more than 16777216; lower",
    "max_new_tokens=100000": "exceeds context_length 32",
    "context_length=1e9": "context_length is 1e9: must be an integer",
    "learner.optimizer.weight_decay=inf": "learner.optimizer.weight_decay is inf: must be finite",
    "learner.optimizer.lr=nan": "learner.optimizer.lr is nan: must be finite",
    "learner.max_grad_norm=inf": "learner.max_grad_norm is inf: must be finite",
    "kl_controller.kl_coef=nan": "kl_controller.kl_coef is nan: must be finite",
    "loss.trust_region.clip_high=nan": "loss.trust_region.clip_high is nan: must be finite",
    "decoding.top_p=1.1": "decoding.top_p is 1.1: must be at most 1",
    "model.num_key_value_heads=3": "which num_key_value_heads 3 does not divide",
    "dynamic_sampling=refill dynamic_sampling.max_tries=0": "dynamic_sampling is a group of "
    "options, whose settings have other paths",
}
YAMLS = {
    "colon": b"_target_: a: b\n",
    "bytes": b"\xff\xfe\x00",
    "empty": b"",
    "list": b"[1, 2]\n",
    "twice": b"a: 1\na: 2\n",
    "circle": b"a: &x [*x]\n",
    "python": b'!!python/object/apply:os.system ["touch executed"]\n',
    "default": b"defaults:\n  - nope\n_target_: x.y\n",
}


@pytest.fixture(scope="module")
def files(place):
    """The folder in which the command lines run, with yamls and a model with its tokenizer."""
    from rlcomp.model.build import causal_lm
    from rlcomp.text.tokenizer import character_tokenizer

    for name, text in YAMLS.items():
        (place / "yamls" / name / "reward").mkdir(parents=True)
        (place / "yamls" / name / "reward" / "broken.yaml").write_bytes(text)
    tokenizer = character_tokenizer(characters="0123456789+-*/=()>: ,?")
    tokenizer.save_pretrained(place / "own")
    sizes = {"hidden_size": 8, "num_hidden_layers": 1, "intermediate_size": 8}
    heads = {"num_attention_heads": 2, "num_key_value_heads": 2, "context_length": 64}
    model = causal_lm(tokenizer=tokenizer, architecture="qwen2", **sizes, **heads)
    model.save_pretrained(place / "own")
    return place


def assert_refused(told, line, said):
    code, message, _ = told(*shlex.split(line))

    assert said in message
    assert message.startswith("rlcomp: ")
    assert "Traceback" not in message
    assert "Node(" not in message
    assert " object at 0x" not in message
    assert code == 2


@pytest.mark.usefixtures("files", "no_model")
@pytest.mark.parametrize("line", NAMED)
def test_what_cannot_be_meant_is_refused(told, line):
    assert_refused(told, line, NAMED[line])


@pytest.mark.slow
@pytest.mark.usefixtures("files", "no_model")
@pytest.mark.parametrize("line", FOUND)
def test_and_so_it_is_in_other_places(told, line, files):
    assert_refused(told, line, FOUND[line])

    assert not (files / "executed").exists()


def test_there_are_as_many_as_promised():
    assert len(FOUND) >= 60


@pytest.mark.usefixtures("files")
def test_the_tokenizer_that_belongs_to_a_model_is_taken(files):
    from rlcomp.model.build import load_causal_lm
    from rlcomp.text.tokenizer import load_tokenizer

    own = str(files / "own")

    tokenizer = load_tokenizer(path=own)
    assert load_causal_lm(path=own, tokenizer=tokenizer, context_length=None) is not None
