"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.countdown.reward import CountdownReward as CountdownReward
from components.worlds.countdown.task import Countdown as Countdown
