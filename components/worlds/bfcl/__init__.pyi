"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.bfcl.calculator import MathService as MathService
from components.worlds.bfcl.environment import BfclEnvironment as BfclEnvironment
from components.worlds.bfcl.episode_services import EpisodeServices as EpisodeServices
from components.worlds.bfcl.episode_services import GoldSolution as GoldSolution
from components.worlds.bfcl.file_system import FileSystemService as FileSystemService
from components.worlds.bfcl.messages import MessageService as MessageService
from components.worlds.bfcl.posting import MicroblogService as MicroblogService
from components.worlds.bfcl.service import Service as Service
from components.worlds.bfcl.service import ServiceError as ServiceError
from components.worlds.bfcl.task import Bfcl as Bfcl
from components.worlds.bfcl.tickets import TicketService as TicketService
from components.worlds.bfcl.trading import TradingService as TradingService
from components.worlds.bfcl.travel import TravelService as TravelService
from components.worlds.bfcl.travel_account import TravelAccount as TravelAccount
from components.worlds.bfcl.vehicle import VehicleService as VehicleService
