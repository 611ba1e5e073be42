import pytest
import torch
from tensordict import TensorDict
from tokenizers import normalizers

from components.reference.teacher import SpanTeacher, TeacherReference
from rlcomp.batch import encode_texts
from rlcomp.metrics import recording
from rlcomp.testing import tiny_policy
from rlcomp.text.answers import answer_prompts
from rlcomp.text.token_bytes import token_bytes
from rlcomp.text.tokenizer import byte_tokenizer, character_tokenizer


def rollout(of):
    draw = torch.Generator().manual_seed(0)
    return answer_prompts(of, ["ab", "c"], group_size=4, max_new_tokens=4, generator=draw)


def test_with_the_same_tokenizer_it_is_the_plain_teacher():
    student, teacher = (tiny_policy("abc", seed=seed, scale=2.0) for seed in (0, 1))
    batch = rollout(student)
    assert batch["truncated"].any()
    assert not batch["truncated"].all()

    found = SpanTeacher(policy=student, teacher=teacher)(batch.copy())
    wanted = TeacherReference(policy=student, teacher=teacher)(batch.copy())

    mask = batch["response_mask"]
    torch.testing.assert_close(found["ref_log_probs"][mask], wanted["ref_log_probs"][mask])


def test_bytes_and_characters_are_the_same_spans_of_ascii():
    student = tiny_policy("abc", seed=0, scale=2.0)
    teacher = tiny_policy(tokenizer=byte_tokenizer(), seed=1)
    batch = rollout(student)

    with recording() as ledger:
        found = SpanTeacher(policy=student, teacher=teacher)(batch.copy())

    # By hand: the same tokens under the bytes' ids.
    names = {student.tokenizer.convert_tokens_to_ids(c): c for c in "abc"}
    ids = {token: teacher.tokenizer(c)["input_ids"][-1] for token, c in names.items()}
    ids[student.tokenizer.eos_token_id] = teacher.tokenizer.eos_token_id
    moved = batch.copy()
    there = batch["attention_mask"]
    moved["tokens"] = torch.zeros_like(batch["tokens"])
    moved["tokens"][there] = torch.tensor([ids[t] for t in batch["tokens"][there].tolist()])
    wanted, mask = teacher.log_probs(moved).detach(), batch["response_mask"]
    torch.testing.assert_close(found["ref_log_probs"][mask], wanted[mask])
    apart = (batch["rollout_log_probs"] - wanted)[mask].tolist()
    # The teacher also reads the end of what was cut off.
    scored = int(mask.sum()) + int(batch["truncated"].sum())
    assert ledger.means() == {
        "teacher/tokens": scored,
        "kl/reference": pytest.approx(sum(apart) / len(apart), abs=1e-5),
    }


def test_what_neither_side_writes_as_it_stands_is_compared_with_nothing():
    student = tiny_policy(tokenizer=byte_tokenizer())
    read = character_tokenizer(characters="ab")
    read.backend_tokenizer.normalizer = normalizers.Replace("\ufffd", "b")
    teacher = tiny_policy(tokenizer=read, seed=1)
    # "a", then half a character, which is decoded to a question mark of three bytes.
    ids = student.tokenizer("a")["input_ids"][-1:]
    odd = token_bytes(student.tokenizer).index(b"\xc3")
    tokens = torch.tensor([[*ids, *ids, odd, student.tokenizer.eos_token_id]])
    own = torch.tensor([[0.0, -1.0, -2.0, -3.0]])
    rows = {
        "tokens": tokens,
        "attention_mask": torch.ones(1, 4, dtype=torch.bool),
        "response_mask": torch.tensor([[False, True, True, True]]),
        "rollout_log_probs": own,
        "prompt": encode_texts(["a"]),
        "response": encode_texts(["a\ufffd"]),
    }

    found = SpanTeacher(policy=student, teacher=teacher)(TensorDict(rows, [1]))["ref_log_probs"]

    # The "a" is a span of both; behind it no token is the text's, on either side.
    assert found[0, 1] != -1
    assert found[0, 2:].tolist() == [-2, -3]
