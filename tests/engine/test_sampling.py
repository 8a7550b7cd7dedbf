import json
import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from toys import byte_level

from twofold.engine.grammar import Grammar, Grammars
from twofold.engine.params import Params
from twofold.engine.sampling import Sampler
from twofold.errors import SpecError

VOCAB = 30
END = 29

params = st.builds(
    Params,
    temperature=st.sampled_from([0.0, 0.3, 1.0, 2.5]),
    top_k=st.sampled_from([0, -1, 1, 4, 100]),
    top_p=st.sampled_from([1.0, 0.4, 0.9]),
    min_p=st.sampled_from([0.0, 0.1]),
    seed=st.integers(0, 2**63),
    repetition_penalty=st.sampled_from([1.0, 1.3]),
    presence_penalty=st.sampled_from([0.0, 0.5]),
    logit_bias=st.sampled_from([{}, {3: 5.0, 4: -5.0}]),
    min_tokens=st.sampled_from([0, 2]),
    logprobs=st.booleans(),
)


def logits_of(slots, step, vocab=VOCAB):
    rows = [np.random.default_rng([slot, step]).normal(size=vocab) * 3 for slot in slots]
    return torch.from_numpy(np.array(rows, np.float32))


def run(requests, order, steps, sampler=None):
    """Tokens of each request by its number, when the requests of ``order`` share every step."""
    sampler = sampler or Sampler(len(requests), VOCAB, ends=[END])
    for slot in order:
        sampler.add(slot, requests[slot], [slot % VOCAB, 5])
    tokens = {slot: [] for slot in order}
    for step in range(steps):
        found = sampler.sample(logits_of(order, step), torch.tensor(order))
        for slot, token in zip(order, found.tokens.tolist(), strict=True):
            tokens[slot].append(token)
    return tokens


def chi_square(tokens, chances):
    expected = len(tokens) * chances
    found = np.bincount(tokens, minlength=len(chances))
    assert not found[expected == 0].any()
    expected, found = expected[expected > 0], found[expected > 0]
    return ((found - expected) ** 2 / expected).sum() - len(expected)


@settings(deadline=None, max_examples=25)
@given(st.lists(params, min_size=2, max_size=6), st.randoms())
def test_a_request_does_not_notice_its_batch_mates(requests, random):
    alone = {slot: run(requests, [slot], 3)[slot] for slot in range(len(requests))}
    order = list(range(len(requests)))
    random.shuffle(order)
    assert run(requests, order, 3) == alone


@settings(deadline=None, max_examples=40)
@given(params, st.integers(1, 4))
def test_a_request_goes_on_elsewhere_as_if_it_had_never_moved(asked, moved):
    whole = run([asked], [0], 6)[0]
    sampler = Sampler(3, VOCAB, ends=[END])
    sampler.add(2, asked, [0, 5], whole[:moved])
    rest = [int(sampler.sample(logits_of([0], step), np.array([2])).tokens[0]) for step in range(moved, 6)]
    assert rest == whole[moved:]


@settings(deadline=None, max_examples=25)
@given(params, params)
def test_a_place_keeps_nothing_of_its_last_request(first, second):
    sampler = Sampler(1, VOCAB, ends=[END])
    run([first], [0], 3, sampler)
    sampler.drop(0)
    assert run([second], [0], 3, sampler) == run([second], [0], 3)


@pytest.mark.parametrize(
    ("field", "kept"),
    [({}, 30), ({"temperature": 0.7}, 30), ({"top_k": 5}, 5), ({"top_p": 0.6}, None), ({"min_p": 0.2}, None)],
)
def test_tokens_follow_the_distribution(field, kept):
    slots, steps = 500, 20
    row = np.random.default_rng(1).normal(size=VOCAB).astype(np.float32)
    sampler = Sampler(slots, VOCAB)
    for slot in range(slots):
        sampler.add(slot, Params(seed=slot, **field), [])
    drawn = [
        sampler.sample(torch.from_numpy(np.tile(row, (slots, 1))), np.arange(slots)).tokens.numpy()
        for _ in range(steps)
    ]
    chances = np.exp(row.astype(np.float64) / field.get("temperature", 1.0))
    chances /= chances.sum()
    order = np.argsort(-chances)
    if "top_p" in field:
        kept = int(np.searchsorted(chances[order].cumsum(), field["top_p"])) + 1
    if "min_p" in field:
        kept = int((chances >= field["min_p"] * chances.max()).sum())
    chances[order[kept:]] = 0
    assert chi_square(np.concatenate(drawn), chances / chances.sum()) < 45, "29 degrees of freedom at most: below 1e-5"


def test_no_temperature_takes_the_likeliest():
    logits = logits_of(range(4), 0)
    expected = logits.argmax(-1).tolist()
    assert list(run([Params(temperature=0)] * 4, range(4), 1).values()) == [[token] for token in expected]


def test_without_a_seed_two_requests_differ():
    sampler = Sampler(2, 2**16)
    for slot in range(2):
        sampler.add(slot, Params(), [])
    first, second = sampler.sample(torch.zeros(2, 2**16), np.array([0, 1])).tokens.tolist()
    third, fourth = sampler.sample(torch.zeros(2, 2**16), np.array([0, 1])).tokens.tolist()
    assert (first, third) != (second, fourth)


def test_log_probabilities_are_those_of_the_model():
    sampler = Sampler(3, VOCAB)
    sampler.add(0, Params(temperature=0, logit_bias={7: 100.0}, logprobs=True), [])
    sampler.add(1, Params(seed=1, logprobs=True, top_logprobs=3, presence_penalty=2.0), [], [1, 2])
    sampler.add(2, Params(seed=1), [])
    logits = logits_of(range(3), 0)
    raw = logits.log_softmax(-1)
    found = sampler.sample(logits.clone(), np.arange(3))
    assert found.tokens[0] == 7
    assert torch.allclose(found.logprobs[:2], raw[[0, 1], found.tokens[:2]])
    assert math.isnan(found.logprobs[2])
    assert found.top.ids[1].tolist() == raw[1].topk(3).indices.tolist()
    assert torch.allclose(found.top.logprobs[1], raw[1].topk(3).values)
    assert found.top.ids[[0, 2]].tolist() == [[-1, -1, -1], [-1, -1, -1]]
    assert sampler.sample(logits_of([2], 1), np.array([2])).logprobs is None


def test_each_row_gets_as_many_likeliest_tokens_as_it_asks_for():
    sampler = Sampler(2, VOCAB)
    for slot, most in enumerate((1, 3)):
        sampler.add(slot, Params(temperature=0, logprobs=True, top_logprobs=most), [])
    found = sampler.sample(logits_of([0, 1], 0), np.array([1, 0]))
    assert (found.top.ids >= 0).tolist() == [[True, True, True], [True, False, False]]
    assert found.top.logprobs.isnan().tolist() == [[False, False, False], [False, True, True]]
    assert found.top.ids[:, 0].tolist() == found.tokens.tolist()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("temperature", [0, 1])
def test_logits_that_are_not_numbers_give_no_token_and_harm_nobody(value, temperature):
    sampler = Sampler(2, VOCAB)
    for slot in range(2):
        sampler.add(slot, Params(temperature=temperature, seed=3, top_p=0.5, presence_penalty=1, logprobs=True), [])
    logits = logits_of([0, 1], 0)
    logits[0] = value
    found = sampler.sample(logits, np.array([0, 1]))
    assert found.tokens[0] == -1
    assert found.tokens[1] >= 0
    assert math.isnan(found.logprobs[0])


def test_no_end_before_the_least_number_of_tokens():
    sampler = Sampler(1, VOCAB, ends=[END])
    sampler.add(0, Params(temperature=0, min_tokens=2, logit_bias={END: 100.0}), [])
    tokens = [int(sampler.sample(logits_of([0], step), np.array([0])).tokens[0]) for step in range(3)]
    assert END not in tokens[:2]
    assert tokens[2] == END


@pytest.mark.parametrize("field", [{"logit_bias": {VOCAB: 1.0}}, {"stop_ids": (VOCAB,)}, {"grammar": Grammar("regex")}])
def test_what_this_model_cannot_do_is_refused(field):
    with pytest.raises(SpecError, match=next(iter(field))):
        Sampler(1, VOCAB).add(0, Params(**field), [])


class TestGrammar:
    BACKEND = byte_level()
    END = BACKEND.token_to_id("</s>")
    VOCAB = 280
    GRAMMARS = Grammars(BACKEND.to_str(), VOCAB, [END])
    SCHEMA = Grammar.json_schema(
        {"type": "array", "items": {"enum": ["the", "ell"]}, "minItems": 1, "maxItems": 3},
    )

    def sampler(self):
        return Sampler(4, self.VOCAB, ends=[self.END], grammars=self.GRAMMARS)

    def spell(self, sampler, slots, steps=60):
        texts = {slot: [] for slot in slots}
        for step in range(steps):
            active = [slot for slot in slots if self.END not in texts[slot]]
            if not active:
                break
            found = sampler.sample(logits_of(active, step, self.VOCAB), np.array(active))
            for slot, token in zip(active, found.tokens.tolist(), strict=True):
                texts[slot].append(token)
        return texts

    def test_bound_rows_match_and_free_rows_are_free(self):
        sampler = self.sampler()
        for slot in range(3):
            sampler.add(slot, Params(seed=slot, grammar=self.SCHEMA), [])
        sampler.add(3, Params(seed=3), [])
        together = self.spell(sampler, [3, 1, 0, 2])
        for slot in range(3):
            value = json.loads(self.BACKEND.decode(together[slot]))
            assert 1 <= len(value) <= 3
            assert set(value) <= {"the", "ell"}
        alone = self.sampler()
        alone.add(3, Params(seed=3), [])
        assert self.spell(alone, [3])[3] == together[3]

    def test_a_request_goes_on_in_the_middle_of_its_grammar(self):
        sampler = self.sampler()
        sampler.add(0, Params(seed=5, grammar=self.SCHEMA), [])
        whole = self.spell(sampler, [0])[0]
        again = self.sampler()
        again.add(0, Params(seed=5, grammar=self.SCHEMA), [], whole[:3])
        rest = []
        for step in range(3, len(whole)):
            rest += again.sample(logits_of([0], step, self.VOCAB), np.array([0])).tokens.tolist()
        assert rest == whole[3:]

    def test_tokens_that_break_the_grammar_cannot_be_taken_up(self):
        with pytest.raises(SpecError, match="written"):
            self.sampler().add(0, Params(grammar=self.SCHEMA), [], [0])

    def test_after_its_end_there_is_nothing_but_the_end(self):
        sampler = self.sampler()
        sampler.add(0, Params(seed=1, grammar=Grammar.choice(["the"])), [])
        tokens = self.spell(sampler, [0])[0]
        assert self.BACKEND.decode(tokens) == "the"
        for step in range(2):
            assert sampler.sample(logits_of([0], step, self.VOCAB), np.array([0])).tokens.tolist() == [self.END]
