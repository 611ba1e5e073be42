r"""Qualifiers of an answer: relations, denials, quantifiers, bounds and bases.

``\neq 7``, ``> 7``, ``at least 7`` and ``17_8`` hold a gold value but mean something else.
"""

from __future__ import annotations

import re
import unicodedata

# Commands that form a value or its format. Any other command may qualify its neighbour.
_VALUES = (
    "frac dfrac tfrac cfrac sqrt cdot times div over left right lvert rvert vert lbrace rbrace "
    "langle rangle pi theta alpha beta gamma delta epsilon varepsilon zeta eta iota kappa "
    "lambda mu nu xi rho sigma tau upsilon phi varphi chi psi omega Gamma Delta Theta Lambda "
    "Xi Pi Sigma Phi Psi Omega sin cos tan cot sec csc arcsin arccos arctan sinh cosh tanh "
    "coth log ln lg exp deg degree degrees circ prime text textbf textit textrm textnormal "
    "mbox hbox mathrm mathbf mathit mathsf mathtt mathnormal boldsymbol bm emph underline "
    "displaystyle textstyle tiny small normalsize large Large LARGE huge Huge bf it rm color "
    "textcolor boxed fbox quad qquad hspace space thinspace enspace begin end overline bar vec "
    "hat imath jmath binom dbinom tbinom choose sum prod int lim operatorname mod bmod pmod "
    "gcd det lfloor rfloor lceil rceil land lor vee wedge therefore dollar percent cent pounds "
    "euro vphantom hline cup tag Re Im infty mathopen mathclose limits to rightarrow Rightarrow "
    "longrightarrow Longrightarrow implies checkmark blacksquare"
)
VALUE_COMMANDS = frozenset(_VALUES.split())
# Signs of sets. They change the meaning of an answer if the gold answer is a value.
_SETS = "in setminus backslash mathbb R emptyset varnothing cap mid"
_SET_COMMANDS = frozenset(_SETS.split())
_SPELLINGS = {
    **dict.fromkeys(("neq", "not=", "≠", "!=", "<>", "=/=", "/=", "=/"), "ne"),
    **dict.fromkeys(("lt", "gt", "le", "ge", "leq", "geq", "leqslant", "geqslant"), "order"),
    **dict.fromkeys(("leqq", "geqq", "<", ">", "≤", "≥", "⩽", "⩾", "≦", "≧"), "order"),
    **dict.fromkeys(("≈", "thickapprox"), "approx"),
    **dict.fromkeys(("±", "+/-", "+-"), "pm"),
    **dict.fromkeys(("≡",), "equiv"),
    **dict.fromkeys(("\u223c", "~"), "sim"),
    **dict.fromkeys(("¬", "lnot"), "neg"),
    **dict.fromkeys((*_SET_COMMANDS, *"∈∅∩\u2216\u211d\u2124\u2115\u211a\u2102"), "set"),
    "∓": "mp",
    "∀": "forall",
    "∃": "exists",
    "\u222a": "",
    "∞": "",
}
# Names of signs that form no value in any notation.
_RELATED = (
    "ne order not neg sim simeq cong propto exists nexists forall notin nless ngtr nleq ngeq "
    "ll gg lesssim gtrsim pm mp !"
)
_RELATIONS = frozenset(_RELATED.split())
_DOUBLED = re.compile(r"\\\\([A-Za-z]+)")
_COMMAND = re.compile(r"\\([A-Za-z]+|.)", re.DOTALL)
_ESCAPES = frozenset(",;:! \\%${}()[]\n-/|")
# Gold answers that are ranges: another answer may spell them by relations, and lists by sets.
_RANGE = re.compile(
    r"[\[(].*,.*[\])]|\\\{|\\(?:cup|infty|lor|begin)(?![A-Za-z])|\u222a|∞|\bor\b", re.DOTALL
)
_THOUSANDS = re.compile(r"(?<=[0-9]),(?:\\!)?(?=[0-9]{3}(?![0-9]))")
_SIGN = re.compile(
    r"\\not\s*=|!\s*=|=?\s*/\s*=|=\s*/|<\s*>|\+\s*/?\s*-(?=\s*[0-9A-Za-z.\\({])|[<>~]|\.\."
    r"|\^\s*(?:\{\s*[-+]\s*\}|[-+](?!\s*[0-9A-Za-z\\({]))"
)
_SPACE = re.compile(r"\\[!,;: ]")
# LaTeX writes the space before or inside a unit as ``~``.
_TIE = re.compile(r"(?<=[0-9)}])~(?=\\(?:text|mathrm|rm)|[A-Za-z]{2})|(?<=[mt]\{)~(?=[A-Za-z])")
# Sign between the quantity sought, such as f'(2) or \max f, and its value.
_EQUALS = re.compile(r"(?<![!<>=/\\])=(?![<>=/])(?<!\\not=)")
# ``!`` before a value; a factorial follows one.
_BANG = re.compile(r"(?:^|[^\w)}\]!])\s*!(?!\s*=)")
# A primed letter, which is a complement.
_PRIME = re.compile(r"[A-Za-z]\s*(?:'|\^\s*\{?\s*\\prime)(?![A-Za-z])")
# Operators, primes, arrows, dashes, quotes and Chinese punctuation.
PLAIN_SIGNS = frozenset(
    "\u2192\u21d2\u27f9\u2234\u2713"
    "\u00d7\u00f7\u00b7\u2219\u22c5\u221a\u00b0\u2032\u2033\u2212\u2013\u2014\u2010"
    "\u2011\u2030\u201c\u201d\u2018\u2019\u2026\u3001\uff0c\u3002\uff1b\uff1a\uff08\uff09"
)
# Unicode categories of letters, numerals, spaces and currencies.
_CATEGORIES = frozenset(["Ll", "Lu", "Lo", "No", "Nd", "Zs", "Sc"])
_BASE = re.compile(r"_\s*(\{(?:[^{}]|\{[^{}]*\})*\}|\\?\w)|([₀-₉]+)")
_NUMERAL = re.compile(r"[0-9)\]₀-₉](?:\s*\\?\})*\s*\Z")
_PREFIX = re.compile(r"(?<![0-9A-Za-z])0([xXbBoO])[0-9A-Fa-f]")
_DIGITS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")
_BASES = {**{word: str(n) for n, word in enumerate(_DIGITS)}, "twelve": "12", "sixteen": "16"}
_BASES |= {"binary": "2", "ternary": "3", "octal": "8", "hexadecimal": "16"}
_BASES |= {"bin": "2", "oct": "8", "hex": "16"}
# Bases by the letter after 0: 0x17.
_OF_PREFIX = {"x": "16", "b": "2", "o": "8"}
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")

_MORE = r"more|less|fewer|greater|larger|smaller|bigger|higher|lower|above|below|over|under|up"
_DENIAL = (
    r"\w+n['\u2019`]t|(?:is|are|was|ca|wo|do|does|did)nt|not|never|cannot|without|except|excluding"
    r"|(?:anything|all|any \w+|every \w+) but|(?<!nothing )(?<!none )other than|different from"
    r"|unequal to|neither"
    r"|unless|opposite of|non|no longer"
)
_BOUND = (
    rf"at (?:the )?(?:very )?(?:least|most)|(?:{_MORE})(?: or equal)?(?: than|(?<=up) to)|exceed\w*"
    r"|(?:minimum|maximum) of|minus|negative|in excess of|upto"
    r"|twice|double|triple|half(?: of)?|(?:square|cube|square root|cube root|factorial) of"
)
_ROUND = r"about|approximately|approx\.?|roughly|nearly|almost|close to|circa|ca\."
_QUANTIFIER = r"some|any|every|for all|there (?:is|exists)(?: an?)?"
_WRONG = r"wrong|incorrect|false|untrue|impossible"
_BASE_WORD = (
    r"(?:in |to )?\(?(?:base|bin(?:ary)?|oct(?:al)?|hex(?:adecimal)?|ternary|mod(?:ulo)?)\b"
)
# Names of bases, and "base" with the number that follows it.
_NAMED_BASE = re.compile(
    r"\bbase[\s-]*(\w+)|\b(bin(?:ary)?|ternary|oct(?:al)?|hex(?:adecimal)?)\b", re.IGNORECASE
)
# Words that bound a number, but may be about place or time.
_LOOSE = r"over|under|above|below|around|beyond|between|near|past"
_FILLER = r"equals?|equal to|be|been|exactly|the|an?|is|number|value|necessarily|just|only|of|to"
_FILLER += r"|going|really|actually|possibly|even|it|any"
_OPENING = r"[(\[{\"'$*]*\s*\Z"
# Signs and words that round a number; group 1 is a calculation before the sign.
_ROUNDING = re.compile(
    rf"([0-9][ )%$A-Za-z]*)?(?:≈|\\approx(?![A-Za-z]))|\b(?:{_ROUND})(?=[\s*$(]*[0-9.])",
    re.IGNORECASE,
)
_DECIMAL = re.compile(r"[0-9]\.[0-9]")
_COUNT = r"(?:an?|one|two|three|four|five|six|seven|eight|nine|ten)"
_PARTS = r"(?:hal(?:f|ves)|thirds?|quarters?|fourths?|fifths?|sixths?|eighths?|tenths?)"
# Words after a number that change it.
_CHANGED = (
    rf"squared|cubed|factorial|halves|ish|and {_COUNT}[ -]{_PARTS}|point {_COUNT}"
    rf"|(?:plus|minus|divided by) {_COUNT}"
)
# Words before and after a number that deny or bound it.
_BEFORE = re.compile(
    rf"\b(?:(?:{_DENIAL})[\s:]+(?:(?:{_FILLER})\s+)*|(?:{_BOUND})[\s:]+(?:(?:the|an?|only|just)\s+)?)"
    + _OPENING,
    re.IGNORECASE,
)
_LOOSELY_BEFORE = re.compile(rf"\b(?:{_LOOSE}|{_ROUND})\s+(?:the\s+)?{_OPENING}", re.IGNORECASE)
_STATED = re.compile(
    rf"(?:(?:\A|[.!?:\n])\s*|(?:\b(?:is|are|was|were|be|equals?)|=)\s+)(?:{_LOOSE})\s+(?:the\s+)?"
    + _OPENING,
    re.IGNORECASE,
)
_AFTER = re.compile(
    r"[\s*()\]}\"'%]*(?:[A-Za-z]+\s+){0,2}?(?:(?:and|or)\s+"
    rf"(?:{_MORE}|upwards?|beyond|so)\b|at (?:the )?(?:very )?(?:least|most)\b|upwards?\b"
    rf"|(?:plus|not)\W*\Z|(?:is |was |are )?(?:{_WRONG})\b"
    r"|(?:is not|isn['\u2019]?t) (?:it|right|correct|true|so|the (?:right |correct )?answer)\b"
    rf"|(?:minimum|maximum)\b|-?(?:{_CHANGED})\b|{_BASE_WORD})",
    re.IGNORECASE,
)
_SCALES = r"hundred|thousand|million|billion|trillion"
_QUALIFYING = re.compile(
    rf"\b(?:{_SCALES}|{_DENIAL}|{_BOUND}|{_ROUND}|{_QUANTIFIER}|{_BASE_WORD}|{_WRONG}|no|minimum|maximum)(?!\w)",
    re.IGNORECASE,
)
# Qualifying words about a base, which do not count where :func:`_bases` has read the base itself.
_OF_BASE = re.compile(r"(?:base|bin(?:ary)?|oct(?:al)?|hex(?:adecimal)?|ternary)\Z")
_NUMBER = re.compile(r"[0-9]+")
# Signs of a value, in a text within a formula.
_COUNTED = re.compile(r"[0-9+*=]")
_TEXT = re.compile(r"\\(?:text\w*|mathrm|mbox|hbox|operatorname)\s*\{([^{}]*)\}")


def is_qualified(answer: str, gold: str) -> bool:
    r"""Return whether an answer qualifies its value in a way that the gold answer does not.

    Qualifiers are relations other than ``=``, denials, quantifiers, bounds, other bases, and signs
    that are not known to form values. Such unknown signs do not count before the last ``=``, where
    they form the quantity sought. Relations and sets are allowed if the gold answer is one, and
    rounding if it is a decimal fraction.

    Examples:
        >>> is_qualified(r"\neq 7", "7"), is_qualified("at least 7", "7"), is_qualified("x=7", "7")
        (True, True, False)
        >>> is_qualified("17_8", "17"), is_qualified("17₈", "17_{8}"), is_qualified("1_{10}", "1")
        (True, False, False)
        >>> is_qualified(r"x \geq 7", r"[7, \infty)"), is_qualified(r"x \geq 7", "7")
        (False, True)
    """
    if _continues(answer) and not _continues(gold):
        return True
    allowed = _allowed(gold)
    if _DECIMAL.search(gold):
        answer, allowed = without_rounding(answer), allowed | {"approx"}
    *sought, value = _EQUALS.split(answer)
    signs = _signs(value) | (_signs("=".join(sought)) & _RELATIONS)
    if signs - allowed or _bases_except_ten(answer) != _bases_except_ten(gold):
        return True
    return bool(_qualifying_words(answer, gold))


def without_rounding(text: str) -> str:
    """Remove the signs and words that round numbers from a text.

    Examples:
        >>> without_rounding("about 2.5, or ≈2.5"), without_rounding("5/2 ≈ 2.5")
        (' 2.5, or 2.5', '5/2 ≈ 2.5')
    """
    return _ROUNDING.sub(lambda word: word[0] if word[1] else "", text)


def _continues(text: str) -> bool:
    r"""Return whether text in a formula holds digits or operators beside its number: 7\text{.5}."""
    outside = _TEXT.sub(" ", text)
    return bool(_NUMBER.search(outside)) and any(map(_COUNTED.search, _TEXT.findall(text)))


def is_related(formula: str, gold: str) -> bool:
    r"""Return whether a formula relates its value to another one, or denies it; it may round.

    Examples:
        >>> is_related("x > 7", "7"), is_related(r"x \approx 7", "7"), is_related("x > 7", "7 < x")
        (True, False, False)
    """
    relations = (_signs(formula) - _allowed(gold)) & _RELATIONS
    has_other_base = _bases_except_ten(formula) != _bases_except_ten(gold)
    return bool(relations or has_other_base or _qualifying_words(formula, gold))


def _allowed(gold: str) -> set[str]:
    """Return the signs of a gold answer and of its other spellings."""
    signs = _signs(gold)
    if signs & {"order", "ne", "pm", "set"} or _RANGE.search(gold):
        return signs | {"order", "ne", "set"}
    return signs | {"set"} if "," in _THOUSANDS.sub("", gold) else signs


def _signs(text: str) -> set[str]:
    """Return the signs of a formula that form no value, with one name for all spellings."""
    text = _SPACE.sub(" ", _TIE.sub(" ", text))
    signs = {re.sub(r"[\s\\]", "", sign[0]) for sign in _SIGN.finditer(text)}
    rest = _SIGN.sub(" ", text)
    for command in _COMMAND.findall(rest):
        if command not in VALUE_COMMANDS and command not in _ESCAPES:
            signs.add(command)
    rest = _COMMAND.sub(" ", rest)
    signs |= {name for name in _DOUBLED.findall(text) if _SPELLINGS.get(name, name) in _RELATIONS}
    signs |= {"'"} if _PRIME.search(text) else set()
    signs |= {"!"} if _BANG.search(rest) else set()
    signs |= {"|"} if rest.count("|") % 2 else set()
    foreign = {sign for sign in rest if not sign.isascii()} - PLAIN_SIGNS
    signs |= {sign for sign in foreign if unicodedata.category(sign) not in _CATEGORIES}
    signs |= {sign for sign in "#@?&`" if sign in rest and "\\begin" not in text}
    return {_SPELLINGS.get(sign, sign) for sign in signs} - {""}


def _bases_except_ten(text: str) -> set[str]:
    """Return the bases that a text states, except ten."""
    return _bases(text) - {"10"}


def _bases(text: str) -> set[str]:
    """Return the bases that a text states for its numbers."""
    bases = set[str]()
    for match in _BASE.finditer(text):
        if match[1] and not _NUMERAL.search(text[max(0, match.start() - 60) : match.start()]):
            continue
        name = _TEXT.sub(r"\1", match[1] or match[2].translate(_SUBSCRIPTS)).strip("{}\\ ()")
        bases.add(_BASES.get(name.lower(), name))
    for named in _NAMED_BASE.finditer(_TEXT.sub(r" \1 ", text)):
        name = (named[1] or named[2]).lower()
        bases |= {_BASES.get(name, name)} if name in _BASES or name.isdecimal() else set()
    bases |= {_OF_PREFIX[prefix[1].lower()] for prefix in _PREFIX.finditer(text)}
    return bases


def _qualifying_words(text: str, gold: str) -> set[str]:
    """Return the words that deny or bound a formula's value, but not the gold answer's value."""
    words = _words(text) - _words(gold)
    return {word for word in words if not (_bases(text) and _OF_BASE.search(word))}


def _words(text: str) -> set[str]:
    """Return the words of a formula that deny or bound its value."""
    plain = _COMMAND.sub(" ", _TEXT.sub(r" \1 ", text))
    words = {match.lower() for match in _QUALIFYING.findall(plain)}
    for number in _NUMBER.finditer(plain):
        words |= words_around(plain, number.start(), number.end(), loose=True)
    return words


def words_around(text: str, start: int, end: int, *, loose: bool) -> set[str]:
    """Return the words before and after a number in a text that deny or bound it.

    Args:
        text: a text without commands.
        start: index of the number.
        end: index after it.
        loose: include words of rounding, and words that may be about place or time, such as
            ``over``; otherwise the latter count only at the beginning of a sentence or after "is".

    Examples:
        >>> sorted(words_around("no more than 7 or so", 13, 14, loose=False))
        ['more than', 'or so']
    """
    before, after = text[max(0, start - 60) : start], text[end : end + 60]
    matches = [_BEFORE.search(before), _AFTER.match(after)]
    matches.append((_LOOSELY_BEFORE if loose else _STATED).search(before))
    return {match[0].strip().lower() for match in matches if match}
