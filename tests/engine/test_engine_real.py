"""The engine on a real decoder, pool and sampler: a tiny random model, by every policy."""

import io
import os

import pytest

pytest.importorskip("transformers")

from fakes import device, group
from tiny import Run, reference, saved

from twofold.engine.decisions import DecisionLog, read_events
from twofold.engine.engine import Engine
from twofold.engine.load import load
from twofold.engine.params import Params
from twofold.engine.pool import Pool
from twofold.engine.replay import replay
from twofold.engine.sampling import Sampler

ENOUGH = hasattr(os, "sched_getaffinity") and len(os.sched_getaffinity(0)) >= 2
LANES = pytest.mark.skipif(not ENOUGH, reason="lanes need two cores")
POLICIES = [
    "1B,request-level",
    "1B,prefill-first",
    "1B,mixed",
    "1B,chunked=11",
    pytest.param("1B,multiplexed,layer-budget=30", marks=LANES),
]
PROMPTS = [[(7 * number + 11 * i * i) % 96 for i in range(9 + 8 * number)] for number in range(5)]
PROMPTS[3][:24] = PROMPTS[2][:24]
GREEDY = [Params(temperature=0.0, max_tokens=6 + number, ignore_eos=True) for number in range(5)]
DRAWN = [Params(temperature=1.5, top_p=0.9, seed=number, max_tokens=9, logprobs=True) for number in range(5)]


@pytest.fixture(scope="module")
def loaded(tmp_path_factory):
    return load(saved(reference("llama"), tmp_path_factory.mktemp("model")))


def served(loaded, policy, params, blocks=22):
    """Tokens and log probabilities of all prompts, which arrive two steps apart; group and events of the log."""
    log, tokens, logprobs = io.StringIO(), {}, {}
    engine = Engine(
        loaded.decoder,
        Pool.sized(loaded.model, "fp32", blocks=blocks, block_tokens=4),
        Sampler(8, loaded.model.vocab, ends=loaded.eos_ids),
        model=loaded.model,
        group=group(policy),
        device=device(),
        eos_ids=loaded.eos_ids,
        context=80,
        requests=8,
        decisions=DecisionLog(log.write),
    )
    arriving = [str(number) for number in range(len(params))]
    while arriving or engine.has_work:
        if arriving:
            number = int(arriving.pop(0))
            engine.add(str(number), PROMPTS[number], params[number])
        for output in [*engine.step(), *engine.step()]:
            tokens.setdefault(int(output.id), []).extend(output.token_ids)
            logprobs.setdefault(int(output.id), []).extend(each.chosen for each in output.logprobs or ())
    engine.close()
    return tokens, logprobs, engine.stats(), list(read_events(log.getvalue().splitlines()))


@pytest.mark.parametrize("policy", POLICIES)
def test_greedy_tokens_are_those_of_the_decoder_alone(loaded, policy):
    tokens, _, stats, _ = served(loaded, policy, GREEDY)
    for number, prompt in enumerate(PROMPTS):
        assert tokens[number] == Run(loaded.decoder).greedy(prompt, 6 + number)
    if stats["split"] is None:
        assert stats["prefix_hits"] + stats["preemptions"] > 0


@pytest.mark.parametrize("policy", POLICIES)
def test_drawn_tokens_depend_on_the_seed_alone(loaded, policy):
    tokens, logprobs, _, _ = served(loaded, policy, DRAWN)
    alone, alone_logprobs, _, _ = served(loaded, "1B,request-level,batch=1", DRAWN, blocks=60)
    assert tokens == alone
    for number, found in logprobs.items():
        assert found == pytest.approx(alone_logprobs[number], abs=1e-4)


@pytest.mark.parametrize("policy", POLICIES)
def test_its_decisions_are_those_of_a_scheduler_made_from_the_log(loaded, policy):
    _, _, _, events = served(loaded, policy, DRAWN)
    replayed = replay(events)
    assert replayed.difference is None
    assert replayed.plans > 10
