"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.bfcl.calculator import MathService as MathService
from components.worlds.bfcl.environment import BfclEnvironment as BfclEnvironment
from components.worlds.bfcl.file_system import FileSystem as FileSystem
from components.worlds.bfcl.messages import Messages as Messages
from components.worlds.bfcl.posting import Posting as Posting
from components.worlds.bfcl.service import Refused as Refused
from components.worlds.bfcl.service import Service as Service
from components.worlds.bfcl.task import Bfcl as Bfcl
from components.worlds.bfcl.tickets import Tickets as Tickets
from components.worlds.bfcl.trading import Trading as Trading
from components.worlds.bfcl.travel import Travel as Travel
from components.worlds.bfcl.travel_account import TravelAccount as TravelAccount
from components.worlds.bfcl.vehicle import Vehicle as Vehicle
from components.worlds.bfcl.world import Gold as Gold
from components.worlds.bfcl.world import World as World
