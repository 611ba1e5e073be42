"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.tool.bm25 import BM25Search as BM25Search
from components.tool.calculator import Calculator as Calculator
from components.tool.python import PythonInterpreter as PythonInterpreter
