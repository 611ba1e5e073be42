"""Check of the input files of a continued run against its checkpoint."""

from __future__ import annotations

import warnings

from rlcomp.checkpoint.reader import SavedCheckpoint
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.files.digests import Digests, digest_changes
from rlcomp.run.resume import ANEW

# Largest number of changed files in a message.
_SHOWN = 5


def check_inputs(saved: SavedCheckpoint, now: Digests, accept: bool) -> None:
    """Check that the files of a continued run are the files that it has read so far.

    Args:
        saved: checkpoint to continue from.
        now: digests of the files.
        accept: only warn.

    Raises:
        CheckpointError: files have changed; the message names them.
    """
    then: Digests | None = saved.place().get("inputs")
    if then is None:
        warnings.warn(
            f"{saved.path} is of an earlier version and has no digests of the files that its "
            "config points to: changes of them are not noticed",
            RlcompWarning,
            stacklevel=2,
        )
        return
    changed_files = [*digest_changes(then, now)]
    if not changed_files:
        return
    more = f" and {len(changed_files) - _SHOWN} more" if len(changed_files) > _SHOWN else ""
    message = f"{saved.path}: since the run began, {', '.join(changed_files[:_SHOWN])}{more}"
    if not accept:
        raise CheckpointError(
            f"{message}: put the files back, go on with the changed ones by "
            f"accept_changed_files=true, or {ANEW}"
        )
    warnings.warn(f"{message}: accepted (accept_changed_files=true)", RlcompWarning, stacklevel=2)
