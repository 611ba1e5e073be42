import torch
from tensordict import TensorDict

from components.collector.episodes import ShuffledAnchors
from rlcomp.component import Component


class Fixed(Component):
    """Two groups: turns of one and two tokens, with the states 1 to 4, and 7 to 9."""

    reads = ()
    writes = ("anchor_id", "turn_id", "group_id")
    fresh = True

    def forward(self, batch):
        turn = [[0, -1, 1, 1], [0, 0, -1, 1], [0, -1, -1, -1], [0, 0, -1, 1]]
        anchor = [[1, -1, 2, 2], [3, 3, -1, 4], [7, -1, -1, -1], [8, 8, -1, 9]]
        group = [0, 0, 5, 5]
        entries = {"turn_id": turn, "anchor_id": anchor, "group_id": group}
        return TensorDict({k: torch.tensor(v) for k, v in entries.items()}, batch_size=[4])


def test_the_anchors_of_a_group_are_dealt_out_to_its_turns():
    torch.manual_seed(0)
    made, seen = ShuffledAnchors(collector=Fixed()), set()
    for _ in range(20):
        rows = made(TensorDict({}, batch_size=[]))
        anchor = rows["anchor_id"]
        assert (anchor[rows["turn_id"] < 0] == -1).all()
        first, second = anchor[0], anchor[1]
        assert first[2] == first[3]
        assert second[0] == second[1]
        assert sorted([*first[[0, 2]].tolist(), *second[[0, 3]].tolist()]) == [1, 2, 3, 4]
        assert sorted([int(anchor[2, 0]), *anchor[3, [0, 3]].tolist()]) == [7, 8, 9]
        assert anchor[3, 0] == anchor[3, 1]
        seen.add(int(first[0]))
    assert seen == {1, 2, 3, 4}


class One(Fixed):
    """The first group alone."""

    def forward(self, batch):
        return super().forward(batch)[:2]


def test_anchors_of_a_single_group_are_dealt_out_too():
    torch.manual_seed(0)
    made = ShuffledAnchors(collector=One())

    dealt = [made(None)["anchor_id"][0, 0].item() for _ in range(20)]

    assert {*dealt} == {1, 2, 3, 4}


def test_what_a_rollout_draws_follows_from_its_number():
    torch.manual_seed(0)
    large = ShuffledAnchors(collector=Fixed())
    torch.manual_seed(0)
    small = ShuffledAnchors(collector=One())

    second = []
    for made in (large, small):
        made(None)  # of other sizes: it draws more, or fewer, numbers
        made.collector = Fixed()
        second.append(made(None)["anchor_id"])

    assert torch.equal(*second)


def test_rows_without_turns_stay():
    class Empty(Fixed):
        def forward(self, batch):
            rows = super().forward(batch)
            rows["turn_id"] = torch.full_like(rows["turn_id"], -1)
            return rows

    rows = ShuffledAnchors(collector=Empty())(TensorDict({}, batch_size=[]))

    assert torch.equal(rows["anchor_id"], Fixed()(None)["anchor_id"])
