"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.loss.trust_region.bapo import Bapo as Bapo
from components.loss.trust_region.clip import Cispo as Cispo
from components.loss.trust_region.clip import Clip as Clip
from components.loss.trust_region.clip import DualClip as DualClip
from components.loss.trust_region.clip import Gmpo as Gmpo
from components.loss.trust_region.clip import NoTrustRegion as NoTrustRegion
from components.loss.trust_region.clip_cov import ClipCov as ClipCov
from components.loss.trust_region.divergence import Dppo as Dppo
from components.loss.trust_region.divergence import KLCov as KLCov
from components.loss.trust_region.divergence import KLPenalty as KLPenalty
from components.loss.trust_region.divergence import M2po as M2po
from components.loss.trust_region.smooth import Sapo as Sapo
from components.loss.trust_region.smooth import Vespo as Vespo
