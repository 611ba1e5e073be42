"""Upload of an exported folder to the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path

from huggingface_hub import HfApi

from rlcomp.errors import UserError, in_one_line


def upload(folder: Path, name: str, *, private: bool) -> str:
    """Upload a folder as a model of the hub; return its address.

    Args:
        folder: written by ``rlcomp-export``.
        name: ``owner/model``; it is created if it does not exist.
        private: whether a new one is private.

    Raises:
        UserError: the hub cannot be reached, or refuses.
    """
    api = HfApi()
    try:
        api.create_repo(name, private=private, exist_ok=True)
        return str(
            api.upload_folder(repo_id=name, folder_path=folder, commit_message="rlcomp-export")
        )
    except Exception as error:  # its HTTP library has errors of its own
        raise UserError(
            f"{folder} is written, but was not uploaded as '{name}' ({in_one_line(error)}): log in "
            "with `hf auth login`, and check the name"
        ) from error
