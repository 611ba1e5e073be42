"""First words of a newcomer: what they are here, and never a traceback."""

import importlib.metadata
import json
import shlex
import subprocess
import sys

import pytest

from rlcomp import __version__
from rlcomp.advice.explain import explain_composition
from rlcomp.advice.foreign_options import our_name
from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.overrides import check_modes, hydra_arguments
from rlcomp.config.resolve import compose_or_explain
from rlcomp.errors import ConfigError, UserError


def test_every_program_tells_its_version(capsys):
    assert __version__ == importlib.metadata.version("rlcomp") or __version__
    with pytest.raises(SystemExit) as ended:
        Parser(prog="rlcomp-audit").parse(["--version"])

    assert ended.value.code == 0
    assert capsys.readouterr().out == f"rlcomp-audit {__version__}\n"


def test_rlcomp_tells_its_own_version():
    told = subprocess.run(
        [sys.executable, "-m", "rlcomp", "--version"], capture_output=True, text=True, check=True
    )

    assert told.stdout == f"rlcomp {__version__}\n"


@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("-m 'seed=range(0,2)' --cfg job", "rlcomp seed=0 --cfg job"),
        ("-m seed=3,4 kl=none --info config", "rlcomp seed=3 kl=none --info config"),
        ("-m seed=0,1 --cfg all --resolve", "rlcomp seed=0 --cfg all --resolve"),
        (
            "-m seed=0,1 --run",
            "--run and --multirun exclude one another; leave out --run",
        ),
        ("--resolve seed=1", "rlcomp --cfg job --resolve seed=1"),
        ("--package learner", "rlcomp --cfg job --package learner"),
        ("--experimental-rerun a.pickle", "resume=PATH"),
    ],
)
def test_flags_of_hydra_that_exclude_one_another_are_refused(line, told):
    words = shlex.split(line)
    with pytest.raises(UserError) as refused:
        check_modes(words, hydra_arguments(words)[0])

    assert told in str(refused.value)


@pytest.mark.parametrize("line", ["-m seed=0,1", "--cfg job --resolve -p learner", "--info", "a=1"])
def test_flags_of_hydra_that_go_together_are_taken(line):
    words = line.split()

    check_modes(words, hydra_arguments(words)[0])


@pytest.mark.parametrize("line", ["--cfg", "--cfg jobs", "--info nothing"])
def test_a_value_that_a_flag_does_not_take_is_one_sentence(line):
    with pytest.raises(UserError, match="rlcomp --hydra-help lists them"):
        hydra_arguments(line.split())


REFUSED = {
    "~phases.warmstart": "there is no phases.warmstart to delete; did you mean 'warm_start'?",
    "~learner.losses.k": "there is no learner.losses.k to delete; did you mean 'kl'?",
    "~lerner.losses.kl": "there is no lerner to delete; did you mean 'learner'?",
    "~evaluatoin": "there is no evaluatoin to delete; did you mean 'evaluation'?",
    "~lean_backend": "this line has no lean_backend to delete; leave ~lean_backend out",
    "train": "leave train out: rlcomp recipe=grpo",
    "evaluate": "use the program rlcomp-evaluate",
    "hop": "cannot be read: settings are written key=value",
    "rollout.temperature=0.7": "here it is decoding.temperature",
    "loss.clip_low=0.3": "here it is loss.trust_region.clip_low",
    "total_timesteps=5": "here it is phases.rl.steps (steps of the loop, not of the environment)",
}


@pytest.mark.parametrize("word", REFUSED)
def test_a_first_word_is_answered(word):
    with pytest.raises(ConfigError) as refused:
        compose_or_explain([word, "recipe=grpo"])

    told = str(refused.value)
    assert REFUSED[word] in told
    assert "recipe=grpo train" not in told
    assert f"rlcomp {word} " not in told


def test_a_recipe_of_control_has_the_places_of_its_words():
    with pytest.raises(ConfigError) as refused:
        compose_or_explain(["recipe=sac", "buffer_size=100", "n_envs=3", "total_timesteps=9"])

    told = str(refused.value)
    assert "replay.capacity=100" in told
    assert "environment.num_envs=3" in told
    assert "phases.rl.steps=9" not in told  # it counts something else


@pytest.mark.parametrize(
    ("option", "extra"),
    [
        ("launcher/joblib", "sweep"),
        ("launcher/submitit_local", "slurm"),
        ("launcher/submitit_slurm", "slurm"),
        ("sweeper/optuna", "optuna"),
    ],
)
def test_a_plugin_that_is_not_installed_names_its_extra(option, extra):
    from hydra.errors import MissingConfigException

    error = MissingConfigException(f"Could not find 'hydra/{option}'", "")

    told = explain_composition(error, [], lambda _: [])
    unknown = MissingConfigException("Could not find 'hydra/launcher/ray'", "")

    assert "(known: basic, joblib," in explain_composition(unknown, [], lambda _: [])
    assert told.endswith(f": its package is not installed: pip install 'rlcomp[{extra}]'")


# Arguments of stable-baselines3 2.9 (PPO, A2C, DQN, SAC, TD3) and of CleanRL's scripts.
OTHERS = """
learning_rate n_steps batch_size n_epochs gamma gae_lambda clip_range clip_range_vf
normalize_advantage ent_coef vf_coef max_grad_norm use_sde sde_sample_freq
rollout_buffer_class target_kl stats_window_size tensorboard_log policy_kwargs verbose
buffer_size learning_starts tau gradient_steps action_noise replay_buffer_class
optimize_memory_usage target_update_interval exploration_fraction exploration_initial_eps
exploration_final_eps policy_delay target_policy_noise target_noise_clip train_freq
total_timesteps log_interval progress_bar exp_name torch_deterministic cuda track
wandb_project_name wandb_entity capture_video env_id num_envs num_steps anneal_lr
num_minibatches update_epochs norm_adv clip_coef clip_vloss policy_lr q_lr
policy_frequency target_network_frequency noise_clip exploration_noise autotune start_e
end_e train_frequency save_model upload_model
"""


@pytest.mark.parametrize("word", OTHERS.split())
def test_words_of_control_are_known(word):
    assert our_name(word)


def folder(tmp_path):
    header = json.dumps(
        {
            "__metadata__": {"format": "pt"},
            "a": {"dtype": "F32", "shape": [10, 20], "data_offsets": [0, 800]},
            "b": {"dtype": "BF16", "shape": [7], "data_offsets": [800, 814]},
        }
    ).encode()
    weights = len(header).to_bytes(8, "little") + header
    (tmp_path / "model.safetensors").write_bytes(weights)
    files = {
        "config.json": {
            "architectures": ["LlamaForCausalLM"],
            "num_hidden_layers": 3,
            "max_position_embeddings": 64,
        },
        "generation_config.json": {"eos_token_id": [2, 5]},
        "tokenizer_config.json": {"eos_token": "<end>"},
        "tokenizer.json": {
            "added_tokens": [{"id": 2, "content": "<end>"}, {"id": 5, "content": "<turn>"}]
        },
    }
    for name, value in files.items():
        (tmp_path / name).write_text(json.dumps(value))
    (tmp_path / "chat_template.jinja").write_text("{{ messages }}")
    return tmp_path


def facts(tmp_path, *words):
    from rlcomp.cli.model_facts import model_facts
    from rlcomp.config.plan import read

    plan, _ = read(compose_or_explain([f"base={tmp_path}", *words]))
    return [" ".join(line.split()) for line in model_facts(plan)]


def test_a_folder_is_described_by_its_files(tmp_path, monkeypatch):
    # A product of matrices at 1,000 operations a second, and 100 bytes read a second.
    monkeypatch.setattr("rlcomp.cli.model_facts._measure_speed", lambda: (1000.0, 100.0))

    told = facts(folder(tmp_path), "prompts.batch_size=2", "group_size=3", "max_new_tokens=4")

    assert told[1:6] == [
        "architecture LlamaForCausalLM, 3 layers",
        "weights 207 (F32 200, BF16 7)",
        "context at most 64 tokens; context_length here is 32",
        "chat template chat_template.jinja, not used: prompt=chat uses it",
        "stop tokens <end>, <turn>",
    ]
    # 24 tokens: forward 2 * 207 * 24 = 9,936 operations (9.9 s), which is more than to read
    # 828 bytes four times would be (33 s)? No: reading takes longer. Reference: 9.9 s again.
    # Learner: 6 * 207 * 24 = 29,808 operations.
    assert "at least 73 s a step on this CPU (answers 33, scoring 9.9, learner 30)" in told[7]
    assert "all 6 answers have 4 tokens" in told[7]


def test_where_a_computer_reads_fast_answers_take_as_long_as_their_operations(
    tmp_path, monkeypatch
):
    monkeypatch.setattr("rlcomp.cli.model_facts._measure_speed", lambda: (1000.0, 1e9))
    words = ("prompts.batch_size=2", "group_size=3", "max_new_tokens=4")

    # 2 * 207 * 24 operations for the answers and for the reference; three times that to learn.
    told = facts(folder(tmp_path), *words)[7]
    assert "at least 50 s a step on this CPU (answers 9.9, scoring 9.9, learner 30)" in told
    # Adapters: no gradient of the weights, 4 * 207 * 24.
    told = facts(tmp_path, *words, "adapter=lora", "reference=adapter_off", "learner.epochs=2")[7]
    assert "(answers 9.9, scoring 9.9, learner 40)" in told


def test_adapters_need_neither_gradients_nor_moments_of_the_weights(tmp_path):
    whole = facts(folder(tmp_path))[6]
    adapted = facts(tmp_path, "adapter=lora", "reference=adapter_off")[6]

    assert "gradients" in whole
    assert "AdamW" in whole
    assert "gradients" not in adapted
    assert "reference" not in adapted


@pytest.mark.parametrize("broken", [b"", b"\xff" * 40, (2**60).to_bytes(8, "little"), b"\2" * 7])
def test_a_broken_file_of_weights_is_told(tmp_path, broken):
    from rlcomp.errors import DataError

    (folder(tmp_path) / "model.safetensors").write_bytes(broken)

    with pytest.raises(DataError, match=r"model\.safetensors: its header"):
        facts(tmp_path)


@pytest.mark.parametrize("shape", ["[-5, 7]", "[1e999]", "[1.0]", "[281474976710657]", '"55"'])
def test_a_shape_that_no_tensor_has_is_told(tmp_path, shape):
    from rlcomp.errors import DataError

    header = f'{{"a": {{"dtype": "F32", "shape": {shape}}}}}'.encode()
    weights = len(header).to_bytes(8, "little") + header
    (folder(tmp_path) / "model.safetensors").write_bytes(weights)

    with pytest.raises(DataError, match="cannot be read: a shape is"):
        facts(tmp_path)


def test_words_of_a_folder_do_not_steer_the_terminal(tmp_path):
    folder(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps({"architectures": ["\x1b[2J" + "x" * 2000]}))
    (tmp_path / "generation_config.json").write_text('{"eos_token_id": [{"a": 1}, 5]}')

    told = facts(tmp_path)

    assert told[1].startswith("architecture \\x1b[2Jxxx")
    assert len(told[1]) < 1100
    assert told[5] == "stop tokens <end>, <turn>"


def test_no_folder_has_no_facts(tmp_path):
    assert facts(tmp_path) == []
