"""``python -m rlcomp``."""

from rlcomp.cli import main

main()
