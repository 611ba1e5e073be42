import components

__getattr__, __dir__ = components.lookup(__name__)
