"""Task of questions that need several searches in a generated knowledge base."""

from __future__ import annotations

import random
from functools import lru_cache

from rlcomp.arguments import Checked, ExampleCount, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

RELATIONS = ("mother", "father", "friend")
AGE = "age"
# Largest number that a question adds to an age.
_LARGEST_SUMMAND = 9


def knowledge_base(
    *, letters: NonEmptyText = "bcdfghjklmnp", shuffled: bool = False
) -> list[dict[str, str]]:
    """Return documents about invented people: ``{"title": "bc mother", "text": "df"}``.

    A name is two of the letters. Every person has a mother, a father, a friend and an age. Names
    also occur in the documents of other people, so that a search can find wrong documents.

    Args:
        letters: letters of the names.
        shuffled: whether to permute the texts of each relation, as a control: the documents keep
            their form but have no information.

    Raises:
        ConfigError: a letter occurs twice.

    Examples:
        >>> len(knowledge_base(letters="bcd"))
        36
    """
    facts = _draw_facts(letters)
    documents = []
    for relation in (*RELATIONS, AGE):
        texts = [facts[name, relation] for name in _list_names(letters)]
        if shuffled:
            random.Random(named_seed(0, f"shuffled {relation}")).shuffle(texts)
        titles = [f"{name} {relation}" for name in _list_names(letters)]
        documents += [{"title": a, "text": b} for a, b in zip(titles, texts, strict=True)]
    return documents


def _list_names(letters: str) -> list[str]:
    """Return all names of two letters."""
    return [a + b for a in letters for b in letters]


@lru_cache(maxsize=4)
def _draw_facts(letters: str) -> dict[tuple[str, str], str]:
    """Return the value of each name and relation."""
    if len({*letters}) < len(letters):
        raise ConfigError(f"letters is {letters!r}: every letter must occur only once")
    names, draw = _list_names(letters), random.Random(named_seed(0, f"kinship {letters}"))
    facts = {(name, relation): draw.choice(names) for relation in RELATIONS for name in names}
    return facts | {(name, AGE): str(draw.randint(10, 89)) for name in names}


class Hops(metaclass=Checked):
    """Task of questions: ``"bc mother friend?"`` asks for the friend of bc's mother.

    Only the documents of :func:`knowledge_base` hold the relations. The policy makes one search
    in each turn, ``<search>bc mother</search>``, and gets documents. Then it searches
    ``<search>df friend</search>`` and answers ``<answer>gh</answer>``. With ``sums`` every second
    question ends in an age and a number, ``"bc mother age+7?"``. A second tool adds them:
    ``<calculator>41+7</calculator>``.

    A demonstration makes the next call with probability ``asked``. Otherwise it ends with a random
    name or number as its answer. With probability ``noted`` it repeats the result of a call in
    ``<refine>...</refine>`` at the beginning of its next turn.

    Args:
        letters: letters of the names; the tool's corpus must have the same letters.
        hops: maximum number of relations in a question; the numbers from 1 to ``hops`` alternate.
        sums: whether every second question ends in a sum.
        asked: probability that a demonstration makes the next call.
        noted: probability that a demonstration repeats a result.
        examples: number of examples.
        held_out: share of the examples that only evaluators see.

    Raises:
        ConfigError: a letter occurs twice.

    Examples:
        >>> example = Hops(letters="bcd", asked=1.0).example(1)
        >>> example.prompt, example.turns[1:]
        ('bd mother?', ('<information>bd mother bc</information>', '<answer>bc</answer>'))
    """

    def __init__(
        self,
        *,
        letters: NonEmptyText = "bcdfghjklmnp",
        hops: PositiveInt = 2,
        sums: bool = False,
        asked: Probability = 0.4,
        noted: Probability = 0.0,
        examples: ExampleCount = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        self.facts = _draw_facts(letters)
        self.names = _list_names(letters)
        self.hops = hops
        self.sums = sums
        self.asked = asked
        self.noted = noted
        self.examples = examples
        self.held_out = held_out

    def __len__(self) -> int:
        """Return the number of examples, training and held out."""
        return self.examples

    def example(self, index: int) -> Example:
        """Return the question of an index; the numbers of relations alternate."""
        draw = random.Random(named_seed(index, "hops"))
        number, odd = divmod(index, 2)
        relations = draw.choices(RELATIONS, k=1 + number % self.hops)
        if self.sums and odd:
            relations[-1] = AGE
        demonstration = _Demonstration(draw, self.asked, self.noted)
        result = person = draw.choice(self.names)
        for relation in relations:
            fact = self.facts[result, relation]
            query = f"{result} {relation}"
            demonstration.add_call("search", query, f"{query} {fact}", fact)
            result = fact
        question = f"{person} {' '.join(relations)}"
        if relations[-1] == AGE:
            summand = draw.randint(1, _LARGEST_SUMMAND)
            question, total = f"{question}+{summand}", str(int(result) + summand)
            demonstration.add_call("calculator", f"{result}+{summand}", total, total)
            result = total
        guess = str(draw.randint(10, 98)) if relations[-1] == AGE else draw.choice(self.names)
        turns = demonstration.finish(result if demonstration.calls_tools else guess)
        return Example(f"{question}?", result, "".join(turns), turns=turns)


class _Demonstration:
    """Turns of a demonstration, with calls until the first call that is not drawn."""

    def __init__(self, draw: random.Random, asked: float, noted: float) -> None:
        self.draw, self.asked, self.noted = draw, asked, noted
        self.calls_tools = True
        self.turns: list[str] = []
        self.note = ""

    def add_call(self, tool: str, query: str, result: str, fact: str) -> None:
        """Add a call and its result, unless this or an earlier call is not drawn.

        Args:
            tool: name of the tool.
            query: text of the call.
            result: text that the tool returns.
            fact: the result's information, to repeat in the next turn.
        """
        calls_tool = self.draw.random() < self.asked
        repeats_fact = self.draw.random() < self.noted
        self.calls_tools = self.calls_tools and calls_tool
        if not self.calls_tools:
            return
        self.turns.append(f"{self.note}<{tool}>{query}</{tool}>")
        self.turns.append(f"<information>{result}</information>")
        self.note = f"<refine>{fact}</refine>" if repeats_fact else ""

    def finish(self, answer: str) -> tuple[str, ...]:
        """Return all turns; the last one holds the answer."""
        return (*self.turns, f"{self.note}<answer>{answer}</answer>")
