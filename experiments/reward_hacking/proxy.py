"""Rewards with a loophole: partial credit as it is often written."""


def share_of_digits(response: str, answer: str) -> float:
    """The share of the answer's different digits that stand anywhere in the response."""
    wanted = set(answer)
    return len(wanted & set(response)) / len(wanted)
