"""Task of forms to fill in with a browser."""

from __future__ import annotations

import json
import random
from typing import Annotated

from annotated_types import Le

from rlcomp.arguments import Checked, ExampleCount, Fraction, PositiveInt
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Values of each text field, and options of each list.
_TEXT_FIELDS = {
    "Name": ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn"),
    "City": ("Rome", "Oslo", "Lima", "Kyiv", "Bern", "Doha"),
    "Code": tuple(str(number) for number in range(100, 1000)),
    "Phone": tuple(f"555-{number}" for number in range(1000, 10000)),
}
_LIST_FIELDS = {
    "Size": ("small", "medium", "large"),
    "Color": ("red", "green", "blue", "black"),
    "Day": ("Monday", "Tuesday", "Friday"),
}
_FIELDS = {**_TEXT_FIELDS, **_LIST_FIELDS}
_PAGE = """<!doctype html>
<title>Order</title>
<h1>Order</h1>
<form>
{fields}
{buttons}
</form>
<p id="said"></p>
<script>
const form = document.querySelector("form");
form.addEventListener("submit", event => {{
  event.preventDefault();
  window.sent = Object.fromEntries(new FormData(form));
  document.querySelector("#said").textContent = "Thank you.";
}});
</script>
"""


class Form(metaclass=Checked):
    """Task of forms for a browser: ``"Fill in Name: Ada, Size: large, and send."``.

    The columns for :class:`components.environment.browser.Browser` are ``page`` and ``goal``. The
    goal is that the form was sent with exactly these values. The order of fields and buttons is
    random. Answer and demonstration are the values as JSON, so a demonstration has no actions.

    Args:
        fields: number of fields, at most 7.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Examples:
        >>> Form(fields=2).example(0).prompt
        'Fill in Color: black, Name: Eva, and send.'
    """

    def __init__(
        self,
        *,
        fields: Annotated[PositiveInt, Le(7)] = 3,
        examples: ExampleCount = 10_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.fields = fields
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a request, and a page with the form in its columns."""
        draw = random.Random(named_seed(index, "form"))
        names = draw.sample([*_FIELDS], self.fields)
        values = {name: draw.choice(_FIELDS[name]) for name in names}
        buttons = ['<button type="reset">Clear</button>', "<button>Send</button>"]
        draw.shuffle(buttons)
        fields = "\n".join(map(_write_field, names))
        page = _PAGE.format(fields=fields, buttons="\n".join(buttons))
        answer = json.dumps(values, separators=(",", ":"))
        goal = f"JSON.stringify(window.sent) === {json.dumps(answer)}"
        wording = ", ".join(f"{name}: {value}" for name, value in values.items())
        prompt = f"Fill in {wording}, and send."
        return Example(prompt, answer, answer, columns={"page": page, "goal": goal})


def _write_field(name: str) -> str:
    """Return the HTML of a field."""
    if name in _TEXT_FIELDS:
        return f'<p><label>{name} <input name="{name}"></label></p>'
    options = "".join(f"<option>{option}</option>" for option in ("", *_LIST_FIELDS[name]))
    return f'<p><label>{name} <select name="{name}">{options}</select></label></p>'
