"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.sampler_engine.reply import Response as Response
from components.sampler_engine.reply import WrongReplyError as WrongReplyError
from components.sampler_engine.server import ServerEngine as ServerEngine
from components.sampler_engine.transformers_batching import TransformersBatching as TransformersBatching
