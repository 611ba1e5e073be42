import functools
import sys
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file
from torchjd import aggregation, linalg

from components.pareto.gradients import MGDA, NashMTL, TorchJDAggregator
from components.pareto.scalarisation import LinearScalarisation
from rlcomp.errors import MissingExtra, NumericalError
from rlcomp.pareto.aggregator import Objectives

GOLDEN = Path(__file__).parents[2] / "golden" / "preference"
SETS = ["m2", "m2_conflict", "m2_opposite", "m2_aligned"]
SETS += ["m3", "m3_scales", "m3_dependent", "m5"]
G1, G2 = [1.0, 0.0], [-0.5, 1.0]

TIGHT = functools.partial(linalg.QuadprogProjector, norm_eps=1e-12, reg_eps=1e-9)
WEIGHTINGS = {
    "upgrad": aggregation.UPGradWeighting,
    "upgrad_smallreg": lambda: aggregation.UPGradWeighting(projector=TIGHT()),
    "dualproj": aggregation.DualProjWeighting,
    "pcgrad": aggregation.PCGradWeighting,
    "imtlg": aggregation.IMTLGWeighting,
    "alignedmtl": aggregation.AlignedMTLWeighting,
}
# The preferences each case was made with.
PREFERENCES = {
    "m2": [0.9833431954463265, 0.016656804553673462],
    "m2_conflict": [0.8210844270739738, 0.17891557292602625],
    "m2_opposite": [0.39842905199960454, 0.6015709480003955],
    "m2_aligned": [0.7513805018032096, 0.24861949819679047],
    "m3": [0.08656298489473149, 0.45923144372510283, 0.45420557138016565],
    "m3_scales": [0.5025243357374639, 0.209008330747929, 0.2884673335146071],
    "m3_dependent": [0.5747015990136911, 0.17760861256214872, 0.24768978842416017],
    "m5": [
        0.004872107481984732,
        0.3895553356918203,
        0.17658292880670293,
        0.27908673174022863,
        0.14990289627926343,
    ],
}
ALL = {
    name: TorchJDAggregator(weighting=made, row_norm="unit") for name, made in WEIGHTINGS.items()
}
RANDOM_ORDER = {"pcgrad"}


def objectives_of(rows):
    names = tuple("abcdefgh"[: len(rows)])
    return Objectives(names, rows.mean(1), rows.mean(1), rows @ rows.T)


def raw(name):
    return TorchJDAggregator(weighting=WEIGHTINGS[name], row_norm="none")


def combined(part, rows):
    rows = torch.as_tensor(rows, dtype=torch.float64)
    return part.weigh(objectives_of(rows)) @ rows


def case(name, method):
    tensors = load_file(GOLDEN / f"torchjd_{name}_{method}.safetensors")
    return tensors["in.jacobian"], tensors["out.vector"]


def random_rows(seed, count, spread=1.0):
    generator = torch.Generator().manual_seed(seed)
    rows = torch.randn(count, 8, generator=generator, dtype=torch.float64)
    return rows * spread ** torch.randn(count, 1, generator=generator, dtype=torch.float64)


def direction(vector):
    return vector / vector.norm()


@pytest.mark.parametrize("method", WEIGHTINGS)
@pytest.mark.parametrize("name", SETS)
def test_combinations_of_raw_rows_equal_torchjd(name, method):
    rows, expected = case(name, method)
    part = raw(method)
    part.generator.manual_seed(2000)

    torch.testing.assert_close(combined(part, rows), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", SETS)
def test_preferences_of_the_weighting_are_used(name):
    rows, expected = case(name, "upgrad_pref")
    preferences = torch.tensor(PREFERENCES[name], dtype=torch.float64)
    part = TorchJDAggregator(
        weighting=lambda: aggregation.UPGradWeighting(preferences), row_norm="none"
    )

    torch.testing.assert_close(combined(part, rows), expected, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("name", [*SETS, "m3_zero_row"])
def test_the_mean_is_the_linear_default(name):
    rows, expected = case(name, "mean")

    torch.testing.assert_close(
        combined(LinearScalarisation(weights=None), rows), expected, rtol=1e-7, atol=1e-9
    )


@pytest.mark.parametrize(
    ("method", "factor"),
    [
        ("upgrad", 1.5),
        ("upgrad_smallreg", 1.5),
        ("dualproj", 1.5),
        ("alignedmtl", 1.5),
        ("pcgrad", 1.0),
        ("imtlg", 1.0),
    ],
)
def test_a_zero_row_is_left_out_of_the_mean(method, factor):
    rows, expected = case("m3_zero_row", method)

    result = combined(raw(method), rows)

    # UPGrad and DualProj add their regularisation to a Gram of another trace.
    torch.testing.assert_close(result, factor * expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("c", [0, 0.5, 1.2])
@pytest.mark.parametrize("name", [name for name in SETS if name != "m2_opposite"])
def test_cagrad_equals_torchjd_within_solver_tolerance(name, c):
    rows, expected = case(name, f"cagrad_c{c}")
    part = TorchJDAggregator(weighting=lambda: aggregation.CAGradWeighting(c), row_norm="none")

    torch.testing.assert_close(combined(part, rows), expected, rtol=2e-4, atol=2e-5)


@pytest.mark.parametrize("name", ["m2", "m2_conflict", "m2_aligned", "m3", "m5"])
def test_nash_mtl_direction_equals_torchjd_within_solver_tolerance(name):
    rows, expected = case(name, "nashmtl")

    result = combined(NashMTL(row_norm="none", num_iterations=20), rows)

    # The length follows the rows there, which are brought to a common unit here.
    torch.testing.assert_close(direction(result), direction(expected), rtol=5e-3, atol=5e-4)


@pytest.mark.parametrize("name", [name for name in SETS if name not in ("m2_opposite",)])
def test_fair_grad_direction_equals_torchjd(name):
    rows, expected = case(name, "fairgrad")
    part = TorchJDAggregator(weighting=lambda: aggregation.FairGradWeighting(1.0), row_norm="none")

    # Least squares stop at a gradient of 1e-8, in another unit than there.
    torch.testing.assert_close(
        direction(combined(part, rows)), direction(expected), rtol=0, atol=1e-4
    )


@pytest.mark.parametrize(
    ("method", "wanted", "tolerance"),
    [
        # Each less what goes against the other: (1, 0) + 0.4 (-0.5, 1) and (0, 1).
        ("pcgrad", [0.8, 1.4], 1e-12),
        # The mean of the same two, because each is then at a right angle to the other.
        ("upgrad_smallreg", [0.4, 0.7], 1e-6),
        ("upgrad", [0.4, 0.7], 1e-3),
        ("imtlg", [0.29179607, 0.47213595], 1e-8),
    ],
)
def test_combination_of_two_conflicting_vectors(method, wanted, tolerance):
    result = combined(raw(method), [G1, G2])

    expected = torch.tensor(wanted, dtype=torch.float64)
    torch.testing.assert_close(result, expected, atol=tolerance, rtol=0)


def test_cagrad_of_two_vectors_that_conflict():
    part = TorchJDAggregator(weighting=lambda: aggregation.CAGradWeighting(0.5), row_norm="none")

    result = combined(part, [G1, G2])

    torch.testing.assert_close(result, torch.tensor([0.45789, 0.68683]).double(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("method", ["upgrad", "dualproj", "mgda"])
@given(seed=st.integers(0, 10000), count=st.integers(2, 4))
def test_unit_rows_have_no_conflict(method, seed, count):
    # Lengths over four orders of magnitude, where raw rows are (the next test).
    rows = random_rows(seed, count, spread=10.0)
    part = MGDA(row_norm="unit") if method == "mgda" else ALL[method]

    along = rows @ combined(part, rows)

    assert float((along / rows.norm(dim=1)).min()) >= -1e-3 * float(rows.norm(dim=1).mean())


def test_raw_rows_of_very_different_norms_have_conflicts():
    lengths = torch.tensor([[0.01], [1.0], [1.0], [50.0]]).double()
    against = {"none": 0, "unit": 0}
    for seed in range(50):
        rows = torch.nn.functional.normalize(random_rows(seed, 4), dim=1) * lengths
        for norm in against:
            result = combined(
                TorchJDAggregator(weighting=WEIGHTINGS["upgrad"], row_norm=norm), rows
            )
            cosine = torch.nn.functional.cosine_similarity(rows, result[None])
            against[norm] += int(cosine.min() < -0.01)

    assert against["unit"] == 0
    assert against["none"] > 20


@pytest.mark.parametrize("method", sorted(WEIGHTINGS))
@given(seed=st.integers(0, 10000))
def test_with_unit_rows_a_row_norm_changes_only_the_common_norm(method, seed):
    rows = random_rows(seed, 2)
    factors = torch.tensor([[20.0], [0.1]]).double()

    result, expected = combined(ALL[method], factors * rows), combined(ALL[method], rows)

    longer = (factors * rows).norm(dim=1).mean() / rows.norm(dim=1).mean()
    torch.testing.assert_close(result, longer * expected, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("method", sorted(WEIGHTINGS.keys() - RANDOM_ORDER))
@given(seed=st.integers(0, 10000), order=st.permutations(range(3)))
def test_torchjd_weights_follow_the_order_of_the_objectives(method, seed, order):
    rows = random_rows(seed, 3)

    permuted = ALL[method].weigh(objectives_of(rows[list(order)]))

    expected = ALL[method].weigh(objectives_of(rows))[list(order)]
    torch.testing.assert_close(permuted, expected, atol=1e-6, rtol=1e-6)


@pytest.mark.parametrize("method", sorted(WEIGHTINGS))
def test_torchjd_weight_of_one_objective_is_1(method):
    assert ALL[method].weigh(objectives_of(random_rows(0, 1))).tolist() == [1.0]


def test_duplicates_of_all_objectives_keep_the_direction():
    for seed in range(10):
        rows = random_rows(seed, 2)

        once, twice = (combined(ALL["upgrad"], r) for r in (rows, torch.cat([rows, rows])))

        # Its regularisation is 1e-4 of the trace.
        torch.testing.assert_close(direction(twice), direction(once), atol=2e-3, rtol=0)


def test_with_running_norms_a_growing_row_counts_more_at_first():
    part = TorchJDAggregator(weighting=aggregation.MeanWeighting, row_norm="ema")
    eye = torch.eye(2).double()
    part.weigh(objectives_of(eye))

    weights = part.weigh(objectives_of(eye * torch.tensor([[11.0], [1.0]]).double()))

    # 0.9 + 1.1 = 2 and 1: divided by 2 and 1, mean 1.5, half of each.
    torch.testing.assert_close(weights, torch.tensor([0.375, 0.75]).double())
    assert part.norms.run_state() == pytest.approx({"a": 2.0, "b": 1.0})


def test_random_methods_use_the_own_generator():
    part, rows, outside = raw("pcgrad"), random_rows(1, 5), torch.get_rng_state()
    state = part.generator.get_state()

    weights = {tuple(part.weigh(objectives_of(rows)).tolist()) for _ in range(20)}

    assert torch.equal(torch.get_rng_state(), outside)
    assert len(weights) > 1
    part.generator.set_state(state)
    again = {tuple(part.weigh(objectives_of(rows)).tolist()) for _ in range(20)}
    assert again == weights


def test_weights_that_are_not_finite_raise():
    class Broken(torch.nn.Module):
        def forward(self, gram):
            return torch.tensor([1.0, torch.nan])

    with pytest.raises(NumericalError, match="the weights are"):
        TorchJDAggregator(weighting=Broken, row_norm="unit").weigh(objectives_of(random_rows(0, 2)))


@pytest.mark.parametrize("missing", ["cvxpy", "clarabel"])
def test_a_missing_cagrad_solver_raises_with_its_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)  # as if it were not installed

    with pytest.raises(MissingExtra, match=rf"{missing}.*rlcomp\[solvers\]"):
        TorchJDAggregator(weighting=lambda: aggregation.CAGradWeighting(0.5), row_norm="unit")


@pytest.mark.parametrize("missing", ["cvxpy", "ecos"])
def test_a_missing_nash_mtl_solver_raises_with_its_extra(monkeypatch, missing):
    monkeypatch.setitem(sys.modules, missing, None)

    with pytest.raises(MissingExtra, match=rf"{missing}.*rlcomp\[solvers\]"):
        NashMTL(row_norm="unit", num_iterations=20)


@pytest.mark.parametrize(
    "make",
    [
        lambda: NashMTL(row_norm="unit", num_iterations=20),
        lambda: TorchJDAggregator(weighting=aggregation.MeanWeighting, row_norm="unit"),
    ],
)
def test_missing_torchjd_raises_with_its_extra(monkeypatch, make):
    monkeypatch.setitem(sys.modules, "torchjd", None)

    with pytest.raises(MissingExtra, match=r"'torchjd' is not installed.*rlcomp\[pareto\]"):
        make()


@pytest.mark.parametrize("count", [2, 3])
def test_nash_weights_solve_g_alpha_equals_1_over_alpha(count):
    rows = random_rows(3, count)

    weights = NashMTL(row_norm="none", num_iterations=200).weigh(objectives_of(rows))

    products = weights * (rows @ rows.T @ weights)
    torch.testing.assert_close(
        products / products.mean(), torch.ones(count).double(), atol=5e-3, rtol=0
    )


def test_nash_weights_of_two_equal_vectors_with_a_negative_eigenvalue():
    # The smaller eigenvalue is -5e-13. Both want the same step of length 1: half of each.
    gram = torch.tensor([[1.0, 1.0], [1.0, 1.0 - 1e-12]], dtype=torch.float64)

    weights = NashMTL(row_norm="none", num_iterations=20).gram_weights(gram)

    assert weights.tolist() == pytest.approx([0.5, 0.5])
