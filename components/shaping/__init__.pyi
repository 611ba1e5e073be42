"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.shaping.length import CosineLength as CosineLength
from components.shaping.length import KimiLength as KimiLength
from components.shaping.length import L1Exact as L1Exact
from components.shaping.length import L1Max as L1Max
from components.shaping.length import SoftOverlong as SoftOverlong
from components.shaping.length import StopProperly as StopProperly
from components.shaping.length_penalty import AdaptiveLengthPenalty as AdaptiveLengthPenalty
from components.shaping.length_penalty import GRPOLead as GRPOLead
from components.shaping.length_penalty import LengthPenalty as LengthPenalty
from components.shaping.process import ImplicitProcessReward as ImplicitProcessReward
from components.shaping.process import PotentialShaping as PotentialShaping
from components.shaping.process import StepRewards as StepRewards
from components.shaping.process import TurnPotentialShaping as TurnPotentialShaping
from components.shaping.transform import RaterNoise as RaterNoise
from components.shaping.transform import RunningNormalisation as RunningNormalisation
from components.shaping.transform import ShuffledShaping as ShuffledShaping
