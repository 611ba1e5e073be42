"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.sorting.judgements import Revisions as Revisions
from components.worlds.sorting.judgements import Verdicts as Verdicts
from components.worlds.sorting.labels import SortingGraded as SortingGraded
from components.worlds.sorting.labels import SortingPairs as SortingPairs
from components.worlds.sorting.positional_accuracy import PositionalAccuracy as PositionalAccuracy
from components.worlds.sorting.task import Sorting as Sorting
from components.worlds.sorting.variants import Substitution as Substitution
from components.worlds.sorting.variants import TwoOrders as TwoOrders
from components.worlds.sorting.variants import TwoScripts as TwoScripts
from components.worlds.sorting.variants import UnsaidOrder as UnsaidOrder
