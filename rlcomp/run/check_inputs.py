"""Check of the files that a continued run reads against those of its checkpoint."""

from __future__ import annotations

import warnings

from rlcomp.checkpoint.reader import SavedCheckpoint
from rlcomp.errors import CheckpointError, RlcompWarning
from rlcomp.files.digests import Digests, digest_changes
from rlcomp.run.resume import ANEW

# Most changed files in a message.
_SHOWN = 5


def check_inputs(saved: SavedCheckpoint, now: Digests, accept: bool) -> None:
    """Check that the files a run reads are those that it has read so far.

    Args:
        saved: checkpoint that it goes on from.
        now: the files' digests.
        accept: only warn.

    Raises:
        CheckpointError: files were changed; names them.
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
