"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.environment.answer_verification import SecondAttempt as SecondAttempt
from components.environment.answer_verification import SolverVerifier as SolverVerifier
from components.environment.browser import Browser as Browser
from components.environment.control import CartPole as CartPole
from components.environment.control import Pendulum as Pendulum
from components.environment.openenv import OpenEnv as OpenEnv
from components.environment.proofs import LeanEnvironment as LeanEnvironment
from components.environment.proofs import ProofAttempts as ProofAttempts
from components.environment.reasoning_gym import ReasoningGymEnvironment as ReasoningGymEnvironment
from components.environment.repository import Repository as Repository
from components.environment.text_games import GymnasiumText as GymnasiumText
from components.environment.text_games import SkyRLGym as SkyRLGym
from components.environment.text_games import TextArena as TextArena
from components.environment.tools import Tools as Tools
from components.environment.trl import TRL as TRL
