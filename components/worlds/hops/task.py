"""Hops: questions over a generated knowledge base that need several searches."""

from __future__ import annotations

import random
import sys
from functools import lru_cache

from rlcomp.arguments import Checked, Fraction, NonEmptyText, PositiveInt, Probability
from rlcomp.errors import ConfigError
from rlcomp.interfaces.task import Example
from rlcomp.seed import named_seed

RELATIONS = ("mother", "father", "friend")
AGE = "age"
# Largest number that a question adds to an age.
_MOST_ADDED = 9


def knowledge_base(
    *, letters: NonEmptyText = "bcdfghjklmnp", shuffled: bool = False
) -> list[dict[str, str]]:
    """Return documents of invented people: ``{"title": "bc mother", "text": "df"}``.

    A name consists of two of the letters; every person has a mother, a father, a friend and an age.
    Names also occur in the texts of others, so that a search can find wrong documents.

    Args:
        letters: letters of the names.
        shuffled: whether the texts of each relation are permuted: the documents look the same but
            hold no information.

    Raises:
        ConfigError: a letter occurs twice.

    Examples:
        >>> len(knowledge_base(letters="bcd"))
        36
    """
    facts = _facts(letters)
    documents = []
    for relation in (*RELATIONS, AGE):
        texts = [facts[name, relation] for name in _names(letters)]
        if shuffled:
            random.Random(named_seed(0, f"shuffled {relation}")).shuffle(texts)
        titles = [f"{name} {relation}" for name in _names(letters)]
        documents += [{"title": a, "text": b} for a, b in zip(titles, texts, strict=True)]
    return documents


def _names(letters: str) -> list[str]:
    return [a + b for a in letters for b in letters]


@lru_cache(maxsize=4)
def _facts(letters: str) -> dict[tuple[str, str], str]:
    if len({*letters}) < len(letters):
        raise ConfigError(f"letters is {letters!r}: a letter is there twice")
    names, draw = _names(letters), random.Random(named_seed(0, f"kinship {letters}"))
    facts = {(name, relation): draw.choice(names) for relation in RELATIONS for name in names}
    return facts | {(name, AGE): str(draw.randint(10, 89)) for name in names}


class Hops(metaclass=Checked):
    """Task of questions: ``"bc mother friend?"`` asks for the friend of bc's mother.

    Only the documents of :func:`knowledge_base` hold the relations. One search per turn finds them:
    ``<search>bc mother</search>``, answered by the documents, then ``<search>df friend</search>``,
    then ``<answer>gh</answer>``. With ``sums`` every second question ends in an age and a number,
    ``"bc mother age+7?"``: another tool adds them, ``<calculator>41+7</calculator>``.

    A demonstration asks before each step with probability ``asked``; otherwise it gives a random
    name or number as the answer. With probability ``noted`` it first writes the result of a search
    into ``<refine>...</refine>``.

    Args:
        letters: letters of the names, the same as those of the tool's corpus.
        hops: most relations in a question; all numbers up to it alternate.
        sums: whether every second question ends in a sum.
        asked: probability that a demonstration asks once more.
        noted: probability that it notes a result.
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
        examples: PositiveInt = 100_000,
        held_out: Fraction = 0.1,
    ) -> None:
        if examples > sys.maxsize:
            raise ConfigError(f"Hops: examples is {examples}: must be at most {sys.maxsize}")
        self.facts = _facts(letters)
        self.names = _names(letters)
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
        """Return a question; the lengths alternate."""
        draw = random.Random(named_seed(index, "hops"))
        number, odd = divmod(index, 2)
        relations = draw.choices(RELATIONS, k=1 + number % self.hops)
        if self.sums and odd:
            relations[-1] = AGE
        chain = _Demonstration(draw, self.asked, self.noted)
        subject = first = draw.choice(self.names)
        for relation in relations:
            fact = self.facts[subject, relation]
            chain.call("search", f"{subject} {relation}", f"{subject} {relation} {fact}", fact)
            subject = fact
        question = f"{first} {' '.join(relations)}"
        if relations[-1] == AGE:
            added = draw.randint(1, _MOST_ADDED)
            question, total = f"{question}+{added}", str(int(subject) + added)
            chain.call("calculator", f"{subject}+{added}", total, total)
            subject = total
        other = str(draw.randint(10, 98)) if relations[-1] == AGE else draw.choice(self.names)
        turns = chain.answered(subject if chain.shown else other)
        return Example(f"{question}?", subject, "".join(turns), turns=turns)


class _Demonstration:
    """Turns of a demonstration, until it gives up asking."""

    def __init__(self, draw: random.Random, asked: float, noted: float) -> None:
        self.draw, self.asked, self.noted = draw, asked, noted
        self.shown = True
        self.turns: list[str] = []
        self.note = ""

    def call(self, tool: str, query: str, result: str, told: str) -> None:
        """Add a call, unless it has given up."""
        asks = self.draw.random() < self.asked
        notes = self.draw.random() < self.noted
        self.shown = self.shown and asks
        if not self.shown:
            return
        self.turns.append(f"{self.note}<{tool}>{query}</{tool}>")
        self.turns.append(f"<information>{result}</information>")
        self.note = f"<refine>{told}</refine>" if notes else ""

    def answered(self, answer: str) -> tuple[str, ...]:
        """Return all turns, the answer last."""
        return (*self.turns, f"{self.note}<answer>{answer}</answer>")
