from components import lookup

__getattr__, __dir__ = lookup(__name__)
