"""``rlcomp-replay DUMP``: repeat an optimiser step that was not finite."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from rlcomp.cli.command_arguments import Parser
from rlcomp.cli.error_handler import run_program
from rlcomp.cli.escape import printable

if TYPE_CHECKING:
    from rlcomp.checkpoint.dump import Dump
    from rlcomp.interfaces.protocols import SupportsTrace


def main() -> None:
    """Repeat the step that a run saved when it stopped: where is it not finite first?"""
    run_program(_app)


def _app() -> None:
    parser = Parser(prog="rlcomp-replay", description=main.__doc__)
    parser.add_argument("dump", type=Path, help="the folder that the run named")
    parser.add_argument(
        "--trust",
        action="store_true",
        help="run code that the dump's config names and rlcomp does not ship",
    )
    options = parser.parse()
    bad_keys = replay(options.dump, options.trust)
    for stage, bad in bad_keys.items():
        print(printable(f"{stage:<10}  {bad or 'finite'}"))
    first = next((bad for bad in bad_keys.values() if bad is not None), None)
    print(printable(f"first bad key: {first}" if first else "every number is finite"))


def replay(folder: Path, trust: bool = False) -> dict[str, str | None]:
    """Repeat a dumped step: the same numbers, bit by bit, with the same threads and device.

    Args:
        folder: folder of the dump.
        trust: run code that the config names and rlcomp does not ship.

    Returns:
        By stage of the step, in order: a description of the first bad key in it, or None.

    Raises:
        CheckpointError: as :func:`dumped_learner`; or the batch belongs to another learner.
    """
    from rlcomp.errors import CheckpointError, RlcompError, in_one_line
    from rlcomp.metrics import recording

    learner, dump = dumped_learner(folder, trust)
    try:
        with recording(progress=dump.progress):
            return learner.trace(dump.batch)
    except RlcompError:
        raise
    except Exception as error:
        if trust:
            raise  # the traceback shows the user's own code
        raise CheckpointError(
            f"{folder}: the batch does not fit the learner of its config ({in_one_line(error)}): "
            "take both from the run again"
        ) from error


def dumped_learner(folder: Path, trust: bool = False) -> tuple[SupportsTrace, Dump]:
    """Return the learner of a dump in its state before the step, and the dump.

    Raises:
        CheckpointError: the folder is no dump; its run has no config, because the command line did
            not start it; or its config names code that rlcomp does not ship.
    """
    from rlcomp.checkpoint.dump import read_dump
    from rlcomp.config.build import Builder
    from rlcomp.config.migrations import update_classes
    from rlcomp.config.trust import LEARNER, build_errors, saved_node
    from rlcomp.errors import CheckpointError
    from rlcomp.files.untrusted import read_saved_config
    from rlcomp.interfaces.protocols import SupportsTrace
    from rlcomp.model.allocation_limit import AllocationLimit
    from rlcomp.run.launch import device, place_on

    dump = read_dump(folder)
    file = dump.saved.path / "config.yaml"
    if not file.is_file():
        raise CheckpointError(f"{dump.saved.path} has no config.yaml: build the learner by hand")
    config = update_classes(read_saved_config(file, trust))
    saved = saved_node(config, dump.node, file, trust, LEARNER)
    if saved is None:
        raise CheckpointError(f"{file} has no node {dump.node!r}, whose step the dump is")
    plan, learner_node = saved
    builder = Builder(plan, int(config.seed))
    sizes = [tensor.numel() for tensor in dump.saved.tensors().values()]
    with AllocationLimit(sizes, str(file)), build_errors(file, trust):
        learner = builder.build(learner_node)
    if not isinstance(learner, SupportsTrace):
        raise CheckpointError(f"{file}: {dump.node} is a {type(learner).__name__}, no learner")
    place_on(device(str(config.get("device", "auto"))), builder.built)
    dump.saved.restore({dump.node: learner})
    return learner, dump


if __name__ == "__main__":
    main()
