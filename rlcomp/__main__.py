"""``python -m rlcomp``."""

from rlcomp.cli.run import main

main()
