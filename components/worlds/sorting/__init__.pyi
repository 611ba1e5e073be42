"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.sorting.graded import SortingGraded as SortingGraded
from components.worlds.sorting.pairs import SortingPairs as SortingPairs
from components.worlds.sorting.positional_accuracy import PositionalAccuracy as PositionalAccuracy
from components.worlds.sorting.revisions import Revisions as Revisions
from components.worlds.sorting.substitution import Substitution as Substitution
from components.worlds.sorting.task import Sorting as Sorting
from components.worlds.sorting.two_orders import TwoOrders as TwoOrders
from components.worlds.sorting.two_scripts import TwoScripts as TwoScripts
from components.worlds.sorting.unsaid_order import UnsaidOrder as UnsaidOrder
from components.worlds.sorting.verdicts import Verdicts as Verdicts
