"""Entry point of ``python -m rlcomp``, which is the command ``rlcomp``."""

from rlcomp.cli.run import main

main()
