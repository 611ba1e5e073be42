"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.loss.trust_region.bapo import BAPO as BAPO
from components.loss.trust_region.clip import CISPO as CISPO
from components.loss.trust_region.clip import Clip as Clip
from components.loss.trust_region.clip import DualClip as DualClip
from components.loss.trust_region.clip import GMPO as GMPO
from components.loss.trust_region.clip import NoTrustRegion as NoTrustRegion
from components.loss.trust_region.covariance import ClipCov as ClipCov
from components.loss.trust_region.covariance import KLCov as KLCov
from components.loss.trust_region.divergence import DPPO as DPPO
from components.loss.trust_region.divergence import KLPenalty as KLPenalty
from components.loss.trust_region.divergence import M2PO as M2PO
from components.loss.trust_region.smooth import SAPO as SAPO
from components.loss.trust_region.smooth import VESPO as VESPO
