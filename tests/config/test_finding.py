"""Findings of the checks: level, path, value and remedy of each message."""

import pytest
from omegaconf import OmegaConf

from rlcomp.config.compose import compose_config
from rlcomp.config.finding import Finding
from rlcomp.config.plan import read
from rlcomp.config.resolve import check, plan_of
from rlcomp.errors import ConfigErrors


@pytest.mark.parametrize(
    ("message", "path", "remedy"),
    [
        ("a.lr is 'x': must be a number; set a.lr=1e-4", "a.lr", "set a.lr=1e-4"),
        ("a.b: B (B) needs 'c'; set +a.b.c=...", "a.b", "set +a.b.c=..."),
        ("a.b is 3: odd; set a.b=2; or leave it out", "a.b", "set a.b=2; or leave it out"),
        ("loss@a.b/c is none", "loss@a.b/c", ""),
        ("'a' is counted twice", "", ""),
    ],
)
def test_a_message_is_taken_apart_and_put_together(message, path, remedy):
    finding = Finding.parse("warn", message)

    assert (finding.level, finding.path, finding.remedy) == ("warn", path, remedy)
    assert finding.value in message
    assert str(finding) == message


def test_mistakes_and_suspicious_settings_are_findings_of_one_check():
    words = ["loss.trust_region.clip_high=1.2", "learner.optimizer.lr=[1]"]
    plan, _ = read(compose_config(words))

    findings = check(plan)

    assert [(one.level, one.path) for one in findings] == [
        ("refuse", "learner.optimizer.lr"),
        ("warn", "loss.trust_region.clip_low"),
    ]


def test_a_suspicious_setting_warns_and_a_mistake_refuses():
    config = compose_config(["loss.trust_region.clip_high=1.2"])
    with pytest.warns(UserWarning, match="clip_high is 1.2: these are distances from 1"):
        plan_of(config)

    OmegaConf.update(config, "seed", -1)
    with pytest.raises(ConfigErrors, match="seed is -1"):
        plan_of(config)
