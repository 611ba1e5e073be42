"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.loss.weight.importance import DivergenceFilter as DivergenceFilter
from components.loss.weight.importance import GeometricFilter as GeometricFilter
from components.loss.weight.importance import MaskedWeight as MaskedWeight
from components.loss.weight.importance import OffPolicyMask as OffPolicyMask
from components.loss.weight.importance import SelfNormalisedWeight as SelfNormalisedWeight
from components.loss.weight.importance import TruncatedWeight as TruncatedWeight
from components.loss.weight.rows import BranchShareWeight as BranchShareWeight
from components.loss.weight.rows import EqualRoleWeight as EqualRoleWeight
from components.loss.weight.rows import OverlongMask as OverlongMask
from components.loss.weight.rows import TopEntropy as TopEntropy
