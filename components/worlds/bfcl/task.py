"""BFCL's multi-turn episodes as examples for its environment."""

from __future__ import annotations

import json
import warnings
from collections.abc import Mapping
from typing import Any

from components.worlds.bfcl.episode_services import SERVICES, EpisodeServices
from rlcomp.arguments import Checked, Fraction, NonEmptyText
from rlcomp.data.records import read_rows
from rlcomp.data.template import field_names
from rlcomp.errors import ConfigError, DataError, RlcompWarning
from rlcomp.interfaces.task import Example
from rlcomp.verify.answers import column

# Columns of the file that the environment needs.
_COLUMNS = ("initial_config", "involved_classes", "ground_truth")


class Bfcl(metaclass=Checked):
    r"""Task of episodes of BFCL's multi-turn data, for ``environment=bfcl``.

    The prompt holds the functions and the first request; the column ``requests`` holds all
    requests. Episodes with a class that is not simulated are left out; ``left_out`` counts them.

    Args:
        path: file of the episodes, such as ``bfcl_multi_turn_base.jsonl.gz``.
        documents: file of the functions' documents, such as
            ``bfcl_multi_turn_func_doc.jsonl.gz``; None: the prompt describes no functions.
        prompt_template: text of the prompt, with ``{functions}`` (one JSON schema per line) and
            ``{question}``.
        held_out: share of the episodes that only evaluators see.

    Raises:
        ConfigError: the template lacks ``{question}`` or has an unknown field.
        DataError: a file is missing, a row lacks a column, or all rows are left out.

    Source:
        Patil et al. 2025, the Berkeley Function Calling Leaderboard.
    """

    def __init__(
        self,
        *,
        path: NonEmptyText,
        documents: NonEmptyText | None = None,
        prompt_template: NonEmptyText = "{functions}\n{question}\n",
        held_out: Fraction = 0.1,
    ) -> None:
        fields = field_names("prompt_template", prompt_template, "{question}")
        if "question" not in fields or not fields <= {"question", "functions"}:
            raise ConfigError(
                f"prompt_template {prompt_template!r}: must have {{question}}, and no other field "
                "but {functions}"
            )
        self.prompt_template = prompt_template
        self.held_out = held_out
        self.documents = _read_documents(documents)
        rows = [row.columns for row in read_rows(path)]
        self.rows = [
            row for row in rows if set(_read_column(row, "involved_classes")) <= SERVICES.keys()
        ]
        self.left_out = len(rows) - len(self.rows)
        if not self.rows:
            raise DataError(
                f"{path}: every episode has a class that is not simulated; use episodes whose "
                f"classes are among {', '.join(SERVICES)}"
            )
        if self.left_out:
            warnings.warn(
                f"{path}: {self.left_out} of {len(rows)} episodes are left out: their classes are "
                f"not all simulated ({', '.join(SERVICES)})",
                RlcompWarning,
                stacklevel=2,
            )

    def __len__(self) -> int:
        """Return the number of episodes, training and held out."""
        return len(self.rows)

    def example(self, index: int) -> Example:
        """Return an episode."""
        row = self.rows[index]
        columns = {name: _read_column(row, name) for name in _COLUMNS}
        columns["excluded_function"] = row.get("excluded_function") or []
        columns["requests"] = [
            "\n".join(message["content"] for message in turn)
            for turn in _read_column(row, "question")
        ]
        prompt = self.prompt_template.format(
            functions=self._function_documents(columns), question=columns["requests"][0]
        )
        return Example(prompt, "", "", source=str(row["id"]), columns=columns)

    def _function_documents(self, columns: Mapping[str, Any]) -> str:
        """Return the documents of the available functions, one per line."""
        classes, excluded = columns["involved_classes"], columns["excluded_function"]
        names = EpisodeServices(classes, {}, excluded).functions
        return "\n".join(self.documents[name] for name in names if name in self.documents)


def _read_column(row: Mapping[str, Any], name: str) -> Any:  # noqa: ANN401
    return column(row, name, "task=bfcl")


def _read_documents(path: str | None) -> dict[str, str]:
    """Return the JSON schema of each function by name, without the schema of its answer."""
    keys = ("name", "description", "parameters")
    rows = [row.columns for row in (read_rows(path) if path else ())]
    schemas = [{key: column(row, key, "task.documents") for key in keys} for row in rows]
    return {str(schema["name"]): json.dumps(schema, ensure_ascii=False) for schema in schemas}
