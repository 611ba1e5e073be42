"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.cluster.local import LocalCluster as LocalCluster
from components.cluster.ray import RayCluster as RayCluster
