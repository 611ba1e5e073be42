"""Rewards that do not say what is correct: reported by their names and means."""

from rlcomp.report.runs import find_runs
from rlcomp.report.tables import chosen_metrics

VERDICTS = {"evaluation/sampled": 0.5, "evaluation/greedy": 0.5}
MEANS = {"evaluation/reward/length/sampled": 7.5, "evaluation/reward/length/greedy": 8.0}


def usual(*folders):
    return chosen_metrics([run for folder in folders for run in find_runs([folder])], [])


def test_a_table_has_the_reward_by_its_name_alone(make_run):
    free = make_run("a", [VERDICTS | MEANS])

    assert usual(free) == [*MEANS]
    assert chosen_metrics(find_runs([free]), ["evaluation/greedy"]) == ["evaluation/greedy"]


def test_a_table_has_both_where_only_some_runs_have_verdicts(make_run):
    free, judged = make_run("a", [VERDICTS | MEANS]), make_run("b", [VERDICTS])

    assert usual(free, judged) == [*VERDICTS, *MEANS]
    assert usual(judged) == [*VERDICTS]
