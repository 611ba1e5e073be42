"""Reference by domain with full next-token distributions."""

from __future__ import annotations

from typing import Annotated, ClassVar

from components.reference.teachers import Teachers
from rlcomp.arguments import MinLen, NonEmptyText
from rlcomp.component import Component
from rlcomp.errors import ConfigError
from rlcomp.keys import Key


class TeachersFull(Teachers):
    """Reference by domain with full distributions of the specialists, for ``loss=distil``.

    Reads what the references read, and ``columns``. Writes ``ref_log_probs`` ``[B, T]`` and
    ``ref_log_distribution`` ``[B, T, V]``, nats, without gradient. Records the references' metrics
    over all rows.

    Args:
        references: the references by domain: ``reference=teacher_full`` with a teacher for each.
        column: column of the examples with the name of the domain.

    Raises:
        ConfigError: a reference writes no distribution.
        DataError: (when called) an example has no such column, or it names no domain.

    Source:
        DeepSeek-AI 2025 (DeepSeek-V3.2), arXiv:2512.02556, section 3: specialist distillation.
    """

    writes: ClassVar[tuple[Key, ...]] = ("ref_log_probs", "ref_log_distribution")

    def __init__(
        self,
        *,
        references: Annotated[dict[str, Component], MinLen(1)],
        column: NonEmptyText = "verify_with",
    ) -> None:
        super().__init__(references=references, column=column)
        for name, reference in references.items():
            if "ref_log_distribution" not in reference.writes:
                raise ConfigError(
                    f"reference.references.{name} is a {type(reference).__name__}, which writes no "
                    "distribution: use reference=teacher_full for it, or reference=teachers here"
                )
