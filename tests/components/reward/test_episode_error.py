"""Episodes whose environment failed: every reward says that it looks at them."""

import yaml

from rlcomp.config.declarations import read_declaration
from rlcomp.config.options import config_directory


def test_every_reward_declares_what_makes_its_rows_invalid():
    files = sorted((config_directory() / "reward").glob("*.yaml"))
    targets = {(yaml.safe_load(file.read_text()) or {}).get("_target_") for file in files}
    rewards = [read_declaration(target) for target in targets - {None}]
    judging = [each for each in rewards if "reward_valid" in each.writes]

    assert len(judging) > 30
    unsaid = {each.name for each in judging if "episode_error" not in each.optional}
    # One goes by what another reward has written; a game of masks, a search and a flow
    # have no episodes.
    assert unsaid == {"ShuffledReward", "MaskGameReward", "ProofMembership", "ModeDistance"}
