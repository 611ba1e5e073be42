"""The flow of keys, from sources and from built objects."""

import json

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tensordict.nn import TensorDictModule

from rlcomp.component import Component
from rlcomp.config.build import Builder
from rlcomp.config.compose import compose_config
from rlcomp.config.finding import messages
from rlcomp.config.flow import Flow, Stage, check_stages, fold
from rlcomp.config.flow_source import check_flow, flow_of, run_children
from rlcomp.config.options import config_directory, options_writing
from rlcomp.config.plan import read
from rlcomp.config.reader import Node
from rlcomp.config.resolve import check_plan, plan_of
from rlcomp.errors import ConfigErrors
from rlcomp.interfaces.stages import Collector
from rlcomp.run.check_flow import built_flow, check_built_flow
from rlcomp.run.phase import Phase
from rlcomp.run.stages import Branch, Every, Nothing, Refill, Sequence
from rlcomp.testing import make_batch, tiny_model
from rlcomp.text.tokenizer import byte_tokenizer

RECIPES = sorted(file.stem for file in (config_directory() / "recipe").glob("*.yaml"))


def flow(reads="", writes="", **rest):
    return Flow(frozenset(reads.split()), frozenset(writes.split()), **rest)


def stage(path, reads="", writes="", **rest):
    of_flow = {name: rest.pop(name) for name in ("fresh", "opaque") if name in rest}
    all_reads = frozenset(f"{reads} {rest.pop('optional', '')}".split())
    return Stage(path, path.title(), flow(reads, writes, **of_flow), reads=all_reads, **rest)


def errors(*stages, beside=(), others=None):
    return check_stages("rl", stages, beside, others or {})


KEYS = st.frozensets(st.sampled_from(["reward", "advantage", "value", "tokens"]))
FLOWS = st.builds(Flow, KEYS, KEYS, st.booleans(), st.booleans())
# Only a fresh stage can carry something over into its new batch.
CARRYING = st.one_of(FLOWS, st.builds(lambda keys: Flow(fresh=True, carries=keys), KEYS))


@given(CARRYING, CARRYING, CARRYING)
def test_what_several_stages_read_and_leave_does_not_depend_on_how_they_are_bundled(a, b, c):
    one, other = a.then(b).then(c), a.then(b.then(c))

    assert (one.writes, one.fresh, one.opaque) == (other.writes, other.fresh, other.opaque)


@given(st.lists(FLOWS, max_size=5))
def test_no_stage_of_a_list_misses_a_key_that_its_bundle_does_not_miss(inside):
    # A bundle hides no mistake: what some stage inside lacks, the bundle needs or lacks.
    written, needed, opaque = set(), set(), False
    for flow in inside:
        needed |= set() if opaque else flow.reads - written
        written = set(flow.writes) if flow.fresh else written | flow.writes
        opaque = flow.opaque or (opaque and not flow.fresh)
    bundle = fold(inside)

    assert needed == bundle.reads | bundle.lacks


def test_a_key_an_earlier_stage_writes_may_be_read():
    assert errors(stage("reward", "", "reward"), stage("advantage", "reward", "advantage")) == []


def test_a_key_nobody_writes_is_told_with_what_there_is():
    (error,) = errors(stage("prompts", "", "prompt answer"), stage("learner", "my_key"))

    assert error.startswith(
        "phases.rl.stages: stage learner (Learner) reads 'my_key', which no earlier stage writes: "
        "add a stage that writes it, or take another learner (written so far: answer, prompt)"
    )


def test_a_key_that_is_written_later_says_what_to_move():
    found = errors(stage("advantage", "reward", "advantage"), stage("reward", "", "reward"))

    assert found == [
        "phases.rl.stages: stage advantage (Advantage) reads 'reward'; reward writes that, but "
        "later: move reward before advantage"
    ]


def test_a_node_that_is_there_but_not_listed_is_the_remedy():
    (error,) = errors(stage("learner", "advantage"), others={"baseline": flow(writes="advantage")})

    assert "writes: add baseline to the list before learner" in error


def test_an_option_that_writes_the_key_is_the_remedy():
    (error,) = errors(stage("kl", "ref_log_probs"))

    assert "choose reference=frozen (the usual one) or" in error
    assert "reference=frozen_full" in error


def test_options_are_found_by_what_their_class_writes():
    options = ("adapter_off", "columns", "frozen", "frozen_full", "live_full", "pretrained")
    options += (
        "refreshed",
        "refreshed_full",
        "self_teacher",
        "teacher",
        "teacher_by_spans",
        "teacher_full",
    )
    options += ("teachers", "teachers_full")
    assert options_writing("ref_log_probs") == [f"reference={option}" for option in options]
    assert options_writing("no such key") == []


def test_several_missing_keys_with_one_remedy_are_one_error():
    found = errors(stage("a", "reward advantage"), stage("b", "", "reward advantage"))

    assert len(found) == 1
    assert "reads 'advantage', 'reward'; b writes that" in found[0]


def test_a_fresh_stage_ends_what_was_written_before():
    (error,) = errors(
        stage("reward", "", "reward"),
        stage("rollout", "", "tokens", fresh=True),
        stage("adv", "reward"),
    )

    # Of the rewards that need no more than is there, none is what recipes usually have.
    assert "stage adv (Adv) reads 'reward', which no earlier stage writes: choose reward=" in error
    assert "reward=exact_match" not in error
    assert "usual" not in error


def test_what_a_fresh_stage_carries_over_is_there_behind_it_if_it_was_there_before():
    rollout = Stage("rollout", "Rollout", flow(fresh=True, carries=frozenset({"example_id"})))
    feedback = stage("feedback", "example_id")

    (error,) = errors(stage("prompts", "", "prompt"), rollout, feedback)

    assert errors(stage("prompts", "", "example_id"), rollout, feedback) == []
    assert "reads 'example_id', which no earlier stage writes" in error


def test_a_bundle_asks_for_what_its_fresh_stage_would_carry_over():
    inside = fold([flow(fresh=True, carries=frozenset({"example_id"})), flow("example_id")])

    assert (inside.reads, inside.lacks) == ({"example_id"}, frozenset())


def test_a_key_lacking_inside_a_bundle_that_starts_a_new_batch_is_told():
    inside = fold([flow("", "prompt", fresh=True), flow("reward", "advantage")])

    (error,) = errors(stage("reward", "", "reward"), Stage("batch", "Refill", inside))

    assert error.startswith("phases.rl.stages: inside batch (Refill) 'reward' is read, which no ")


def test_a_fresh_stage_reads_from_the_batch_before_it():
    assert (
        errors(stage("prompts", "", "prompt"), stage("rollout", "prompt", "tokens", fresh=True))
        == []
    )


def test_behind_an_opaque_stage_nothing_is_known():
    assert errors(stage("foreign", opaque=True), stage("learner", "advantage")) == []


def test_a_fresh_stage_ends_what_an_opaque_one_may_have_written():
    (error,) = errors(
        stage("foreign", opaque=True),
        stage("rollout", "", "tokens", fresh=True),
        stage("l", "advantage"),
    )

    assert "stage l (L) reads 'advantage'" in error


def test_what_stands_beside_sees_the_end_of_the_step():
    stages = stage("rollout", "", "tokens"), stage("reward", "tokens", "reward")

    assert errors(*stages, beside=[stage("show", "reward")]) == []


def test_what_stands_beside_writes_for_nobody():
    shows = [stage("first", "", "value"), stage("second", "value")]

    (error,) = errors(stage("rollout", "", "tokens"), beside=shows)

    assert "stage second (Second) reads 'value'" in error


def test_a_group_baseline_with_one_answer_is_refused():
    (error,) = errors(stage("rollout", group_size=1), stage("advantage", min_group_size=2))

    assert error == (
        "rollout.group_size is 1: advantage (Advantage) in phase rl compares at least 2 answers "
        "per prompt; set rollout.group_size=8 or choose another advantage"
    )


KEPT = {"writes": "step_end", "must_reach": frozenset({"step_end|turn_end"})}


def test_a_key_that_must_be_read_may_be_read_by_anybody_behind():
    judge = stage("judge", **KEPT)
    reader = stage("advantage", optional="turn_end")

    assert errors(judge, stage("kl"), reader, stage("learner")) == []
    for stages in ((judge,), (reader, judge), (judge, stage("kl"))):
        (error,) = errors(*stages)
        assert "phases.rl.stages: 'step_end' or 'turn_end' of judge (Judge) is read by" in error


def test_an_opaque_stage_anywhere_behind_may_read_what_must_be_read():
    judge, foreign = stage("judge", **KEPT), stage("foreign", opaque=True)

    assert errors(judge, foreign, stage("learner")) == []
    assert errors(judge, stage("kl"), foreign) == []
    assert len(errors(foreign, judge, stage("learner"))) == 1


@pytest.mark.parametrize(("readers", "told"), [(0, False), (1, True), (9, True), (10, False)])
def test_who_would_read_a_lost_key_is_named_unless_there_are_many(monkeypatch, readers, told):
    found = [f"advantage={n}" for n in range(readers)]
    monkeypatch.setattr("rlcomp.config.flow.options_reading", lambda key, group: found)

    (error,) = errors(stage("judge", **KEPT))

    ending = "that reads 'step_end' or 'turn_end'"
    assert error.endswith(f"{ending} ({', '.join(found)})" if told else ending)


def test_the_group_size_that_counts_is_that_of_the_collector_before():
    one, four = stage("one", group_size=1), stage("four", group_size=4)
    baseline = stage("advantage", min_group_size=2)

    assert errors(one, four, baseline) == []
    assert len(errors(four, one, baseline)) == 1


def test_a_collector_inside_another_stage_counts_as_well():
    inside = Stage("batch", "Refill", flow(), parts=[stage("rollout", group_size=1)])

    (error,) = errors(inside, stage("advantage", min_group_size=2))

    assert error.startswith("rollout.group_size is 1: advantage (Advantage)")


def test_a_baseline_without_a_collector_is_nobodys_mistake():
    assert errors(stage("advantage", min_group_size=2)) == []


def test_a_mark_may_be_carried_once():
    once = stage("kl", marks={"kl": frozenset({"kl"})})

    assert errors(once) == []
    (error,) = errors(once, once)
    assert error.startswith("phases.rl: 'kl' is counted by kl and by kl: keep one")


def test_a_learner_that_steps_twice_carries_the_mark_of_its_loss_once():
    learner = stage("learner", marks={"kl": frozenset({"learner.losses.kl"})})

    assert errors(learner, learner) == []


def test_a_mark_carried_twice_names_both():
    (error,) = errors(
        stage("kl", marks={"kl": frozenset({"kl"})}),
        stage("learner", marks={"kl": frozenset({"learner.losses.kl"})}),
    )

    assert error.startswith("phases.rl: 'kl' is counted by kl and by learner.losses.kl: keep one")
    assert "~learner.losses.kl" in error


class Reward(Component):
    writes = ("reward",)

    def forward(self, batch):
        return batch


class Baseline(Component):
    reads = ("reward",)
    writes = ("advantage",)

    def forward(self, batch):
        return batch


class Sampler(Component):
    writes = ("prompt",)
    fresh = True

    def forward(self, batch):
        return batch


def test_a_sequence_reads_what_is_lacking_inside_and_leaves_what_was_written():
    assert built_flow(Sequence(stages=[Reward(), Baseline()])) == flow("", "reward advantage")
    assert built_flow(Sequence(stages=[Baseline(), Reward()])) == flow("reward", "reward advantage")


@pytest.mark.parametrize("kind", [Branch, lambda stages: Every(k=2, stages=stages)])
def test_what_stands_beside_the_flow_leaves_nothing(kind):
    assert built_flow(kind(stages=[Sampler(), Reward()])) == flow()
    assert built_flow(kind(stages=[Baseline()])) == flow("reward")


def test_what_runs_an_opaque_stage_in_the_flow_is_opaque_and_what_runs_it_beside_is_not():
    opaque = torch.nn.Identity()

    assert built_flow(Sequence(stages=[Reward(), opaque])).opaque
    assert built_flow(Branch(stages=[opaque])) == flow()


def test_what_a_new_batch_takes_along_passes_a_sequence_and_not_what_stands_beside():
    carried = built_flow(Rolled()).carries

    assert "prompt" in carried
    assert built_flow(Sequence(stages=[Reward(), Rolled()])).carries == carried
    assert built_flow(Branch(stages=[Reward(), Rolled()])) == flow("prompt")


def test_a_fresh_stage_makes_its_sequence_fresh():
    assert built_flow(Sequence(stages=[Sampler(), Reward()])) == flow(
        "", "prompt reward", fresh=True
    )


def test_renames_are_part_of_the_flow():
    assert built_flow(Baseline().set_keys(reward="shaped")) == flow("shaped", "advantage")


def test_a_foreign_module_is_known_by_its_in_and_out_keys():
    module = TensorDictModule(torch.nn.Identity(), in_keys=["reward"], out_keys=[("next", "value")])

    assert built_flow(module) == flow("reward", "next.value")


def test_a_plain_module_is_opaque():
    assert built_flow(torch.nn.Identity()).opaque


def test_built_phases_are_checked_before_they_run():
    baseline = Baseline()

    with pytest.raises(ConfigErrors, match=r"stage base \(Baseline\) reads 'reward'"):
        check_built_flow({"rl": Phase(1, [baseline])}, {"base": baseline})


def test_a_built_group_baseline_with_one_answer_is_refused():
    from components.advantage.group import GroupMean

    class Collector(Component):
        writes = ("reward", "reward_valid", "group_id", "response_mask")
        fresh = True

        def __init__(self, *, group_size: int) -> None:
            super().__init__()
            self.group_size = group_size

        def forward(self, batch):
            return batch

    nodes = {"rollout": Collector(group_size=1), "advantage": GroupMean()}

    with pytest.raises(ConfigErrors, match=r"set rollout\.group_size=8"):
        check_built_flow({"rl": Phase(1, list(nodes.values()))}, nodes)


def test_a_foreign_module_that_lacks_a_key_is_found_once_it_is_built():
    module = TensorDictModule(torch.nn.Identity(), in_keys=["reward"], out_keys=["value"])

    with pytest.raises(
        ConfigErrors, match=r"stage TensorDictModule \(TensorDictModule\) reads 'reward'"
    ):
        check_built_flow({"rl": Phase(1, [Nothing(), module])}, {})


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    file = tmp_path_factory.mktemp("rows") / "rows.jsonl"
    lines = [json.dumps({"question": f"{n}+1?", "answer": f"so #### {n + 1}"}) for n in range(40)]
    file.write_text("\n".join(lines))
    text = "".join(f"Line {n} of a text that is long enough.\n" for n in range(300))
    (file.parent / "text.txt").write_text(text)
    labels = [json.dumps({"prompt": f"text {n}", "a": n % 2}) for n in range(80)]
    (file.parent / "labels.jsonl").write_text("\n".join(labels))
    step = {"observation": [1.0, 0.0, 0.0], "action": [0.5], "reward": -1.0}
    step |= {"next_observation": [1.0, 0.0, 0.1], "terminated": False}
    (file.parent / "steps.jsonl").write_text(json.dumps(step))
    tokenizer = byte_tokenizer()
    model = tiny_model(tokenizer, intermediate_size=16, context_length=2048)
    model.save_pretrained(file.parent)
    tokenizer.save_pretrained(file.parent)
    return file


ON_TEXT = {"next_segment", "pretrain_zero", "quiet_star", "rlp", "rpt"}


def overrides(recipe, rows):
    text = ["task@corpus=text", f"corpus.path={rows.parent}/text.txt", "context_length=2048"]
    labels = [f"task.path={rows.parent}/labels.jsonl", "task.labels=[a]"]
    given = {"gsm8k": [f"task.path={rows}"], "text_classifier": labels}
    given["offline_to_online"] = [f"dataset.path={rows.parent}/steps.jsonl"]
    given |= dict.fromkeys(ON_TEXT, (f"base={rows.parent}", *text))
    return [f"recipe={recipe}", *given.get(recipe, [])]


def knows_all(node):
    return not node.declaration.opaque and all(map(knows_all, run_children(node)))


@pytest.mark.slow
@pytest.mark.parametrize("recipe", RECIPES)
def test_source_and_built_objects_tell_the_same_flow(recipe, rows):
    plan = plan_of(compose_config(overrides(recipe, rows)))
    builder = Builder(plan, seed=0)

    for phase in plan.phases.values():
        for node in phase.stages:
            declared, built = flow_of(node), built_flow(builder.build(node))
            # Of a foreign part, source knows nothing; of everything else, all.
            if knows_all(node):
                assert declared == built, node.path
            else:
                assert declared.opaque or declared.reads <= built.reads, node.path


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_flows(recipe, rows):
    assert messages(check_flow(read(compose_config(overrides(recipe, rows)))[0])) == []


def told(*given):
    plan, found = read(compose_config(given))
    return found + check_plan(plan)


def test_a_kl_loss_without_a_reference_says_which_to_choose():
    errors = told("kl=in_loss", "reference=none")

    # The loss reads it, and so does the observer that tells the controller.
    for error, stage in zip(errors, ("kl (KLObserver)", "learner (Learner)"), strict=True):
        assert error.startswith(f"phases.rl.stages: stage {stage} reads 'ref_log_probs'")
        assert "choose reference=frozen (the usual one) or reference=frozen_full or " in error
        assert "self_teacher" not in error


def test_a_kl_counted_in_the_loss_and_in_the_reward_is_refused():
    (error,) = told("kl=in_reward", "+loss@learner.losses.kl=kl")

    assert error.startswith("phases.rl: 'kl' is counted by kl and by learner.losses.kl: keep one")


@pytest.mark.parametrize("advantage", ["gigpo", "turn_return"])
def test_turns_that_the_reward_sums_are_not_paid_once_more(advantage):
    given = ["recipe=agent", "reward=episode_return", f"advantage={advantage}"]

    (error,) = told(*given)
    assert error == (
        "phases.rl: 'turn_reward' is counted by reward and by advantage.outcome=true: "
        "keep one (advantage.outcome=false)"
    )
    assert told(*given, "advantage.outcome=false") == []
    assert told(*given[:1], *given[2:]) == []


def test_a_rename_in_the_config_reaches_the_flow():
    (error,) = told("+advantage._keys_={reward: shaped}")

    assert "stage advantage (GroupMeanStd) reads 'shaped', which no earlier stage writes" in error


def test_a_collector_inside_a_bundle_of_a_config_counts_as_well():
    bundle = "+batch={_target_: rlcomp.run.stages.Sequence, stages: [prompts, rollout]}"
    stages = "phases.rl.stages=[batch,reward,old_log_probs,reference,kl,advantage,learner]"

    assert told(bundle, stages) == []
    (error,) = told(bundle, stages, "rollout.group_size=1")
    assert error.startswith("rollout.group_size is 1: advantage (GroupMeanStd) in phase rl")


def test_a_target_that_is_wrong_is_told_once_by_the_arguments_only():
    (error,) = told("advantage._target_=components.advantage.nowhere.X")

    assert error.startswith(
        "advantage._target_ is components.advantage.nowhere.X: there is no module"
    )


def test_an_empty_batch_passes_the_check_of_an_empty_slot():
    nothing = Nothing()

    check_built_flow({"rl": Phase(1, [nothing])}, {"kl": nothing})
    assert list(nothing(make_batch(a=torch.ones(2))).keys()) == ["a"]


def test_a_node_without_a_readable_source_is_opaque():
    assert flow_of(Node("gae", "torchrl.objectives.value.GAE")).opaque


def test_more_minibatches_than_rows_are_told_before_anything_is_built():
    plan, _ = read(compose_config(["learner.num_minibatches=5000"]))

    assert check_plan(plan) == [
        "learner.num_minibatches is 5000, but a batch has only 1024 rows; lower it, or raise "
        "batch_size or group_size"
    ]


def test_a_refill_that_would_cut_a_group_in_two_is_told_before_anything_is_built():
    refill = "{_target_: rlcomp.run.stages.Refill, rows: 7, stages: [prompts, rollout, reward]}"
    stages = "phases.rl.stages=[full,old_log_probs,reference,advantage,learner]"
    plan, _ = read(compose_config([f"+full={refill}", stages]))

    assert check_plan(plan) == [
        "full.rows is 7, no multiple of group_size 16, so that a group would be cut in two; set "
        "full.rows=16"
    ]


@pytest.mark.parametrize(
    ("words", "key"),
    [
        (("collector@rollout=greedy_baseline",), "greedy"),
        (("kl=in_reward", "advantage=gdpo", "advantage.weights={a:1}"), "reward"),
    ],
)
def test_what_nobody_reads_is_told(words, key):
    (error,) = told(*words)

    assert f"'{key}' of " in error
    assert "is read by no later stage" in error


@pytest.mark.parametrize(
    ("advantage", "remedies"),
    [
        ("gae", ["value=critic", "value=head"]),
        ("greedy_baseline", ["collector@rollout=greedy_baseline"]),
    ],
)
def test_the_remedies_can_be_typed(advantage, remedies):
    (error,) = told(f"advantage={advantage}")

    for remedy in remedies:
        assert remedy in error
        assert told(f"advantage={advantage}", remedy) == []


def test_rewards_of_steps_under_an_advantage_without_a_baseline_for_them_are_refused():
    steps = ["reward=steps", "reward@reward.step=exact_match"]

    (error,) = told(*steps)

    assert "'step_end' of reward (StepAndOutcomeReward) is read by no later stage" in error
    assert "an advantage that reads 'step_end' (advantage=batch_whitened, advantage=gae, " in error
    assert "advantage=process" in error
    assert told(*steps, "advantage=process") == []
    assert told(*steps, "advantage=gae", "value=critic") == []


class Levels(Component):
    """A task's own key, which belongs to the prompt."""

    keys = {"flow_level": ("B", "int64", "how hard the prompt is", {"per_prompt": True})}
    writes = ("prompt", "flow_level")
    fresh = True


class Unlevelled(Component):
    """A new batch of other prompts, without it."""

    writes = ("prompt",)
    fresh = True


class Levelled(Component):
    """A reward that reads it."""

    keys = {"flow_level": ("B", "int64", "how hard the prompt is", {"per_prompt": True})}
    reads = ("response", "flow_level")
    writes = ("reward", "step_end")
    must_reach = ("step_end",)


class Rolled(Collector):
    """A collector by name only."""


class OutcomeOnly(Component):
    reads = ("reward",)
    writes = ("advantage",)


class OfSteps(Component):
    reads = ("reward", "step_end")
    writes = ("advantage",)


def test_what_belongs_to_a_prompt_passes_a_collector_and_what_does_not_is_gone():
    stages = [Levels(), Rolled(), Levelled(), OfSteps()]

    check_built_flow({"rl": Phase(1, stages)}, {})
    check_built_flow({"rl": Phase(1, [Sequence(stages=stages[:2]), *stages[2:]])}, {})
    check_built_flow({"rl": Phase(1, [Refill(stages=stages[:2], rows=4), *stages[2:]])}, {})
    with pytest.raises(ConfigErrors, match=r"stage Levelled \(Levelled\) reads 'flow_level'"):
        check_built_flow({"rl": Phase(1, [*stages[:2], Unlevelled(), Rolled(), *stages[2:]])}, {})


def test_a_prompt_key_under_another_name_passes_a_collector_that_is_told():
    levels = Levels().set_keys(flow_level="hard")
    reward = Levelled().set_keys(flow_level="hard")

    check_built_flow(
        {"rl": Phase(1, [levels, Rolled().set_keys(flow_level="hard"), reward, OfSteps()])}, {}
    )
    with pytest.raises(ConfigErrors, match="reads 'hard'"):
        check_built_flow({"rl": Phase(1, [levels, Rolled(), reward, OfSteps()])}, {})


def test_judged_steps_by_hand_need_an_advantage_that_reads_them():
    with pytest.raises(ConfigErrors, match=r"'step_end' of Levelled .* advantage=process"):
        check_built_flow({"rl": Phase(1, [Levels(), Rolled(), Levelled(), OutcomeOnly()])}, {})


def test_a_key_that_is_written_under_some_settings_only_cannot_be_counted_on():
    class Replays(Component):
        reads = ("sampling_mask",)

    with pytest.raises(ConfigErrors, match=r"Replays \(Replays\) reads 'sampling_mask'"):
        check_built_flow({"rl": Phase(1, [Levels(), Rolled(), Replays()])}, {})


OWN_TASK = """
from rlcomp.component import Component

KEYS = {"own_level": ("B", "int64", "how hard the prompt is", {"per_prompt": True})}

class Level(Component):
    keys = {**KEYS}
    reads = ("prompt",)
    writes = ("own_level",)

    def forward(self, batch):
        return batch

class Wants(Component):
    keys = {**KEYS}
    reads = ("own_level",)
    forward = Level.forward
"""


def test_a_users_own_prompt_key_passes_a_collector_of_a_config(tmp_path, monkeypatch):
    (tmp_path / "own_flow_task.py").write_text(OWN_TASK)
    monkeypatch.syspath_prepend(str(tmp_path))
    before = "conditioning._target_=own_flow_task.Level"

    assert told(before, "feedback._target_=own_flow_task.Wants") == []
    (error,) = told("feedback._target_=own_flow_task.Wants")
    assert "stage feedback (Wants) reads 'own_level', which no earlier stage writes" in error


@pytest.mark.parametrize("recipe", ["m2po", "bapo"])
def test_a_recipe_of_stale_rollouts_takes_another_collector(recipe):
    fresh = compose_config([f"recipe={recipe}", "collector@rollout=group"])
    stale = compose_config([f"recipe={recipe}"])

    assert plan_of(fresh).nodes["rollout"].target.endswith("GroupCollector")
    assert stale.rollout.staleness == 2


@pytest.mark.parametrize(
    ("recipe", "given", "least"),
    [
        ("pkpo", "group_size=3", 4),
        ("pass_at_k_training", "advantage.k=17", 17),
    ],
)
def test_a_group_smaller_than_the_subsets_of_its_baseline_is_refused_from_source(
    recipe, given, least
):
    with pytest.raises(ConfigErrors, match=f"compares at least {least} answers per prompt"):
        plan_of(compose_config([f"recipe={recipe}", given]))


def test_a_stage_that_is_only_referred_to_reads_nothing():
    # The critic asks the objectives for their names; nobody behind the KL reads 'reward'.
    with pytest.raises(ConfigErrors, match=r"'reward' of kl .* would be lost"):
        plan_of(compose_config(["recipe=pama_critic", "kl=in_reward"]))


def test_ppo_on_control_may_stop_early():
    words = ["recipe=control_ppo", "early_stop=plateau", "early_stop.metric=evaluation/return"]

    plan = plan_of(compose_config(words))

    assert plan.phases["rl"].every["early_stop"][1].path == "early_stop"
