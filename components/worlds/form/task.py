"""Form: a page with fields to fill in."""

from __future__ import annotations

import json
import random
import sys

from rlcomp.arguments import Checked, Fraction, PositiveInt
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

# Values of each field: free texts, or the options of a list.
_FREE = {
    "Name": ("Ada", "Ben", "Cleo", "Dan", "Eva", "Finn"),
    "City": ("Rome", "Oslo", "Lima", "Kyiv", "Bern", "Doha"),
    "Code": tuple(str(number) for number in range(100, 1000)),
    "Phone": tuple(f"555-{number}" for number in range(1000, 10000)),
}
_CHOICES = {
    "Size": ("small", "medium", "large"),
    "Color": ("red", "green", "blue", "black"),
    "Day": ("Monday", "Tuesday", "Friday"),
}
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

    The columns for :class:`components.environment.browser.Browser` are ``page`` and ``goal``, that
    exactly these values were sent. The order of fields and buttons is random.

    Args:
        fields: number of fields, at most 7.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: there are more than 7 fields.

    Examples:
        >>> Form(fields=2).example(0).prompt
        'Fill in Color: black, Name: Eva, and send.'
    """

    def __init__(
        self, *, fields: PositiveInt = 3, examples: PositiveInt = 10_000, held_out: Fraction = 0.1
    ) -> None:
        most = len(_FREE) + len(_CHOICES)
        if fields > most:
            raise ConfigError(f"Form: fields is {fields}: must be at most {most}")
        if examples > sys.maxsize:
            raise ConfigError(f"Form: examples is {examples}: must be at most {sys.maxsize}")
        self.fields = fields
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return a form and the values to send."""
        draw = random.Random(named_seed(index, "form"))
        names = draw.sample([*_FREE, *_CHOICES], self.fields)
        values = {name: draw.choice({**_FREE, **_CHOICES}[name]) for name in names}
        buttons = ['<button type="reset">Clear</button>', "<button>Send</button>"]
        draw.shuffle(buttons)
        page = _PAGE.format(
            fields="\n".join(map(_field, names)),
            buttons="\n".join(buttons),
        )
        wanted = json.dumps(values, separators=(",", ":"))
        goal = f"JSON.stringify(window.sent) === {json.dumps(wanted)}"
        wording = ", ".join(f"{name}: {value}" for name, value in values.items())
        prompt = f"Fill in {wording}, and send."
        return Example(prompt, wanted, wanted, columns={"page": page, "goal": goal})


def _field(name: str) -> str:
    if name in _FREE:
        return f'<p><label>{name} <input name="{name}"></label></p>'
    options = "".join(f"<option>{each}</option>" for each in ("", *_CHOICES[name]))
    return f'<p><label>{name} <select name="{name}">{options}</select></label></p>'
