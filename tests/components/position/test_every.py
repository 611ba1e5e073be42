"""Every token of a text."""

from components.position import EveryToken
from rlcomp.data.spans import Span, Tokenised
from rlcomp.text.token_bytes import encode_with_ends
from rlcomp.text.tokenizer import byte_tokenizer


def test_each_text_is_asked_for_its_own_tokens():
    texts = ["abcd", "", "xyé"]
    documents = [Tokenised(text, *encode_with_ends(byte_tokenizer(), text)) for text in texts]

    spans = EveryToken(min_context=2).spans(documents)

    assert spans == [[Span(2, 3), Span(3, 4)], [], [Span(2, 4)]]
