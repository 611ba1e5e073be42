"""Hints on files of other formats, with a command that converts them.

The commands use the standard library only, except for a data set saved by ``datasets``.
"""

from __future__ import annotations

import json
import re
from pathlib import Path

# Bytes that are read to recognise a file, and size of the largest file that is parsed.
_HEAD_BYTES, _MAX_PARSED_BYTES = 1 << 16, 64 << 20


def conversion_hint(path: str, suffixes: tuple[str, ...]) -> str:
    """Return the end of a message on how to convert a file or folder; empty: unknown.

    Args:
        path: the file or folder, spelled as in the settings.
        suffixes: suffixes of the supported files.
    """
    file = Path(path).expanduser()
    if file.is_dir():
        return _folder_hint(path, file, suffixes)
    suffix = file.suffix.lower()
    if suffix in (".csv", ".tsv"):
        tabs = ", delimiter='\\t'" if suffix == ".tsv" else ""
        open_call = f"open({path!r}, newline='', encoding='utf-8-sig')"
        loop = f"[print(json.dumps(row)) for row in csv.DictReader({open_call}{tabs})]"
        target = _in_shell(str(file.with_suffix(".jsonl")))
        return f": {_write_command('csv, json', loop, path)}, then task.path={target}"
    if suffix == ".json" and (description := json_hint(path)):
        return f": {description}"
    return ""


def json_hint(path: str) -> str:
    """Describe a JSON file without one object per line, with the command that converts it.

    Empty if the file is not recognised or too large.
    """
    file = Path(path).expanduser()
    with file.open("rb") as source:
        start = source.read(_HEAD_BYTES).removeprefix(b"\xef\xbb\xbf").lstrip()
    if start.startswith(b"["):
        return f"it is one JSON array, but rows must be one per line; {_rows_command(path, '')}"
    first, _, rest = start.partition(b"\n")
    if rest.strip() and _is_object(first):
        target = file.with_suffix(".jsonl")
        return f"its rows are one per line already: mv {_in_shell(path)} {_in_shell(str(target))}"
    if not start.startswith(b"{") or file.stat().st_size > _MAX_PARSED_BYTES:
        return ""
    try:
        whole = json.loads(file.read_text(encoding="utf-8-sig"))
    except (ValueError, RecursionError):
        return ""
    return _describe_object(path, whole)


def parsing_hint(place: str, column: str) -> str:
    """Return the end of a message on how to parse a column of JSON texts.

    Args:
        place: the row, ``FILE:LINE``; there is a command for JSON Lines only.
        column: the column of JSON texts.
    """
    row = f"{{**row, {column!r}: json.loads(row[{column!r}])}}"
    return _each_row(place, row) or ": parse it with json.loads"


def sharegpt_command(place: str) -> str:
    """Return the command that converts turns of ShareGPT; '' if the file is not JSON Lines."""
    role = "{'human': 'user', 'gpt': 'assistant'}.get(turn['from'], turn['from'])"
    turn = f"{{'role': {role}, 'content': turn['value']}}"
    return _each_row(place, f"{{'messages': [{turn} for turn in row.pop('conversations')], **row}}")


def renaming_command(place: str, names: dict[str, str]) -> str:
    """Return the command that renames columns; '' if the file is not JSON Lines.

    Args:
        place: the row, ``FILE:LINE``.
        names: old names of the columns, by the new names.
    """
    columns = ", ".join(f"{new!r}: row.pop({old!r})" for new, old in names.items())
    return _each_row(place, f"{{{columns}, **row}}")


def joining_hint(place: str) -> str:
    """Return the end of a message on how to join an instruction and its input."""
    both = "'\\n\\n'.join(filter(None, [row['instruction'], row['input']]))"
    command = _each_row(place, f"{{**row, 'instruction': {both}}}")
    return (
        f"{command} and the same fields" if command else ", join it to the instruction of each row"
    )


def _each_row(place: str, row: str) -> str:
    """Return the command that rewrites JSON Lines with an expression for each row."""
    path = place.rpartition(":")[0]
    if not path.endswith(".jsonl"):
        return ""
    target = f"{path.removesuffix('.jsonl')}.new.jsonl"
    rows = f"map(json.loads, open({path!r}, encoding='utf-8-sig'))"
    code = _quoted(f"import json; [print(json.dumps({row})) for row in {rows}]")
    return f": write {target} with python -c {code} > {_in_shell(target)}, then task.path={target}"


def _describe_object(path: str, whole: dict[str, object]) -> str:
    """Describe a file that holds one object: a list of rows under a key, or a single row."""
    for key, value in whole.items():
        has_rows = isinstance(value, list) and value and isinstance(value[0], dict)
        if has_rows and re.fullmatch(r"\w{1,60}", key):
            command = _rows_command(path, f"[{key!r}]")
            return f"it is one object whose {key!r} holds the rows; {command}"
    code = f"print(json.dumps(json.load({_open_call(path)})))"
    return f"it is one object, a single row; {_write_command('json', code, path)}"


def _is_object(line: bytes) -> bool:
    try:
        return isinstance(json.loads(line), dict)
    except (ValueError, RecursionError):
        return False


def _rows_command(path: str, index: str) -> str:
    loop = f"[print(json.dumps(row)) for row in json.load({_open_call(path)}){index}]"
    return _write_command("json", loop, path)


def _open_call(path: str) -> str:
    return f"open({path!r}, encoding='utf-8-sig')"


def _write_command(modules: str, code: str, path: str) -> str:
    """Return the shell command that writes the rows beside the file."""
    file = Path(path)
    target = (
        file.with_suffix(".jsonl") if file.suffix != ".jsonl" else file.with_suffix(".new.jsonl")
    )
    code = _quoted(f"import {modules}; {code}")
    return f"write {target} with python -c {code} > {_in_shell(str(target))}"


def _in_shell(word: str) -> str:
    return word if re.fullmatch(r"[\w@%+=:,./~-]+", word) else _quoted(word)


def _quoted(text: str) -> str:
    escaped = re.sub(r'(["\\$`])', r"\\\1", text)
    return f'"{escaped}"'


def _folder_hint(path: str, folder: Path, suffixes: tuple[str, ...]) -> str:
    names = {entry.name for entry in folder.iterdir()}
    if "dataset_dict.json" in names or {"dataset_info.json", "state.json"} <= names:
        split = "['train']" if "dataset_dict.json" in names else ""
        return f": {_save_to_disk_hint(path, split)}"
    if files := sorted(name for name in names if name.endswith(suffixes)):
        ends = {next(end for end in suffixes if name.endswith(end)) for name in files}
        all_of = f", or all {len(files)} of them, '{folder}/*{min(ends)}'"
        more = all_of if len(files) > 1 and len(ends) == 1 else ""
        return f": it is a folder; name a file in it, such as {folder / files[0]}{more}"
    if any(name.endswith(".json") for name in names):
        files_in = f"sorted(glob.glob({str(Path(path) / '*.json')!r}))"
        loop = f"[print(json.dumps(json.load(open(name)))) for name in {files_in}]"
        command = _write_command("glob, json", loop, path.rstrip("/"))
        return f": it is a folder; if each file holds one row, {command}"
    return ": it is a folder; name a file"


def _save_to_disk_hint(path: str, split: str) -> str:
    target = f"{path.rstrip('/')}.jsonl"
    code = f"import datasets; datasets.load_from_disk({path!r}){split}.to_json({target!r})"
    return f"it is a folder of save_to_disk; write {target} with python -c {_quoted(code)}"
