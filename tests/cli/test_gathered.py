import pytest

from rlcomp.cli.command_arguments import overrides_first


@pytest.mark.parametrize(
    ("words", "whole"),
    [
        ("base=a --cfg job model=b", "base=a model=b --cfg job"),
        ("a=1 -cd mine ~b --info all c=2", "a=1 ~b c=2 -cd mine --info all"),
        ("a=1 --cfg=job b=2", "a=1 b=2 --cfg=job"),
        ("a=1 --info b=2", "a=1 b=2 --info"),
        ("-m a=1 -c job b=2", "a=1 b=2 -m -c job"),
        # As they stand: nothing is parted, or Hydra will not take them at all.
        ("-cd mine -m a=1 b=2", "-cd mine -m a=1 b=2"),
        ("a=1 b=2 --cfg job", "a=1 b=2 --cfg job"),
        ("a=1 --lr 2 b=3", "a=1 --lr 2 b=3"),
        ("--cfg", "--cfg"),
    ],
)
def test_overrides_stand_together(words, whole):
    assert overrides_first(words.split()) == whole.split()
