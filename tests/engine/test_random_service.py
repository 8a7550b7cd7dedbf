"""Whatever comes and goes, by every policy and with memory for few, a request gets exactly what it gets alone."""

import os

import pytest

pytest.importorskip("transformers")

from random_service import END, VOCAB, Crowd, Service, asks_of, spelled
from tiny import reference, saved

from twofold.engine.grammar import Grammars
from twofold.engine.load import load
from twofold.scheduler.fill import take_decodes, take_prompts
from twofold.scheduler.policies import policy

CONTEXT, ASKS, ROUNDS = 96, 40, 150
ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
LANES = pytest.mark.skipif(not ENOUGH, reason="lanes need two cores")
SIZES = {
    "vocab_size": VOCAB,
    "eos_token_id": END,
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
}
"""Of multiples of 64, so that steps of decodes take the compiled pass where the CPU has it."""


@policy("prompts-before-decodes")
def prompts_before_decodes(s, r, k):
    """Chunks up to the budget, and behind them, unless they are of several prompts, the decodes."""
    take_prompts(s, r, k, False)
    if s.steps[k].prompts < 2:
        take_decodes(s, r, k)
    return 0


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load(saved(reference("llama", **SIZES), tmp_path_factory.mktemp("model")))


@pytest.fixture(scope="module")
def grammars():
    return Grammars(spelled().to_str(), VOCAB, [END])


@pytest.fixture(scope="module")
def asks():
    return asks_of(CONTEXT, ASKS, 1)


@pytest.fixture(scope="module")
def answers(loaded, grammars, asks):
    service = Service(loaded, grammars, "1B,request-level,batch=1,no-prefix,blocks=16", 6, CONTEXT)
    return [service.alone(ask) for ask in asks]


@pytest.mark.parametrize(
    ("text", "blocks"),
    [
        ("1B,request-level,blocks=16", 12),
        ("1B,prefill-first,decode-every=3,blocks=4", 30),
        ("1B,mixed,order=priority,blocks=4", 26),
        ("1B,mixed,no-prefix,batch=5,blocks=32", 5),
        ("1B,chunked=16,blocks=4", 26),
        ("1B,chunked=16,order=priority,prefill-every=2,blocks=1", 100),
        ("1B,chunked=64,order=short-first,blocks=8", 13),
        ("1B,chunked=512,blocks=16", 12),
        ("1B,chunked=512,no-prefix,blocks=16", 200),
        ("1B,chunked=510us,blocks=4", 40),
        ("1B,chunked=1,reserve,blocks=4", 40),
        ("1B,policy=prompts-before-decodes,budget=24,blocks=4", 40),
        pytest.param("1B,multiplexed,layer-budget=30,blocks=4", 26, marks=LANES),
        pytest.param("1B,multiplexed=1:1,order=priority,blocks=4", 40, marks=LANES),
        pytest.param("1B,multiplexed=slo,tbt=1ms,no-prefix,blocks=16", 12, marks=LANES),
    ],
)
def test_a_request_gets_in_company_what_it_gets_alone(loaded, grammars, asks, answers, text, blocks):
    service = Service(loaded, grammars, text, blocks, CONTEXT)
    crowd = Crowd(service, asks, answers, seed=blocks)
    crowd.run(ROUNDS)
    assert min(crowd.ended.values()) > 0
    service.check_left()
    service.engine.close()
