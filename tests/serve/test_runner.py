"""The real engine behind the protocol, with a tiny random model."""

import json
import sys

import openai
import pytest

from twofold.engine.params import Params
from twofold.errors import SpecError

torch = pytest.importorskip("torch")

from twofold.serve.runner import EngineRunner  # noqa: E402
from twofold.serve.settings import WorkerSettings  # noqa: E402


@pytest.fixture(scope="module")
def runner(tiny):
    told = []
    made = EngineRunner(WorkerSettings(model=str(tiny), memory_bytes=1 << 20, requests=8), told.append)
    template = (tiny / "chat_template.jinja").read_text()
    assert told == [{"op": "found", "tokenizer": str(tiny), "chat_template": template}]
    yield made
    made.close()


def message(name, tokens=(1, 2, 3), **params):
    given = Params(**{"temperature": 0.0, "max_tokens": 4, "ignore_eos": True, **params})
    return {
        "op": "add",
        "id": name,
        "tokens": list(tokens),
        "params": given.to_map(),
        "priority": 0,
        "deadline_s": None,
    }


def answers(runner):
    items = []
    while runner.has_work():
        items += runner.step()
    return items


def test_says_what_it_serves(runner, tiny):
    about = runner.about()
    assert (about["model"], about["context"], about["vocab"]) == (tiny.name, 512, 258)
    assert about["blocks"] * about["block_tokens"] == (1 << 20) // (2 * 2 * 16 * 4)
    assert about["eos_ids"] == [257]


def test_a_request_gets_its_tokens(runner):
    runner.add(message("a", logprobs=True, top_logprobs=2))
    items = answers(runner)
    assert [item["id"] for item in items] == ["a"] * 4
    assert [item["finish"] for item in items] == [None, None, None, "length"]
    for item in items:
        (token,) = item["tokens"]
        (known,) = item["logprobs"]
        assert known["top"][0] == (token, known["chosen"])
        assert len(known["top"]) == 2
    assert sum(items[-1]["times"].values()) > 0


def test_what_cannot_run_is_refused(runner):
    with pytest.raises(SpecError, match="max_tokens"):
        runner.add(message("b", max_tokens=1000))
    assert not runner.has_work()


def test_an_aborted_request_frees_its_blocks(runner):
    runner.add(message("c", max_tokens=100))
    runner.step()
    assert runner.stats()["kv_usage"] > 0
    runner.abort("c")
    assert answers(runner) == []
    assert runner.stats()["kv_usage"] == 0
    assert runner.stats()["running"] == 0


def test_decodes_that_wait_behind_prompts_are_counted(tiny):
    runner = EngineRunner(
        WorkerSettings(model=str(tiny), deployment="1B,prefill-first", memory_bytes=1 << 20, requests=8)
    )
    runner.add(message("a", max_tokens=20))
    runner.step()
    runner.step()
    assert runner.stats()["decode_stall_s"] == 0
    runner.add(message("b", tokens=range(1, 100)))
    answers(runner)
    assert runner.stats()["decode_stall_s"] > 0
    assert runner.stats()["steps_by_kind"]["prompt"] == 2
    runner.close()


def check_stop_tokens(server, body, direct):
    """A token that ends the answer is generated and not shown, and ends nothing before ``min_tokens``."""

    def asked(**fields):
        return server.complete(**{**body, "return_token_ids": True, **fields}).json()["choices"][0]

    last = direct[2]
    shown = direct.index(last)
    stopped, cut = asked(stop_token_ids=[last]), asked(max_tokens=shown or 1)
    assert stopped["token_ids"] == direct[: shown + 1]
    assert stopped["text"] == (cut["text"] if shown else "")
    assert stopped["finish_reason"] == "stop"
    assert len(asked(stop_token_ids=[last], min_tokens=5)["token_ids"]) >= 5


def check_forced_calls(server):
    """With random weights only the grammar can have brought the calls about."""
    parameters = {"properties": {"a": {"enum": [1, 2]}}, "required": ["a"], "additionalProperties": False}
    add = {"type": "function", "function": {"name": "add", "parameters": {"type": "object", **parameters}}}
    client = openai.OpenAI(base_url=f"{server.address}/v1", api_key="none", max_retries=0, timeout=60)
    blank = server.post("/tokenize", {"prompt": " \n"}).json()["tokens"]
    with client:
        for choice in ("required", {"type": "function", "function": {"name": "add"}}):
            (given,) = client.chat.completions.create(
                model="echo",
                messages=[{"role": "user", "content": "x"}],
                tools=[add],
                tool_choice=choice,
                parallel_tool_calls=False,
                logit_bias={str(token): -100 for token in blank},
            ).choices
            (call,) = given.message.tool_calls
            assert given.finish_reason == "tool_calls"
            assert call.function.name == "add"
            assert json.loads(call.function.arguments)["a"] in (1, 2)


def check_special_tokens_are_not_spelled(server):
    """They are no text, so an answer that must show one is refused, by the name of the field."""
    for field, value in (("guided_choice", ["<|im_end|>"]), ("guided_json", {"const": "<|im_end|>"})):
        reply = server.complete([5, 6], **{field: value})
        assert (reply.status_code, reply.json()["error"]["param"]) == (400, field)
        (event,) = server.events("/v1/completions", {"prompt": [5, 6], "max_tokens": 9, field: value})[-1:]
        assert event["error"]["param"] == field


def test_a_served_model_answers_as_the_engine_does(serving, runner, tiny, tmp_path):
    runner.add(message("direct", tokens=(5, 6, 7), max_tokens=6))
    direct = [token for item in answers(runner) for token in item["tokens"]]
    decisions = tmp_path / "decisions.jsonl"
    worker = {"model": str(tiny), "memory_bytes": 1 << 20, "log_decisions": str(decisions)}
    command = [sys.executable, "-m", "twofold.serve.worker"]
    with serving(worker=worker, worker_command=command) as server:
        body = {"prompt": [[5, 6, 7], [9]], "max_tokens": 6, "temperature": 0, "ignore_eos": True, "seed": 1}
        whole = server.complete(**body, return_token_ids=True).json()
        assert whole["choices"][0]["token_ids"] == direct
        chosen = server.complete([5, 6], temperature=1.0, guided_choice=["yes", "no"]).json()["choices"][0]
        assert chosen["text"] in ("yes", "no")
        assert chosen["finish_reason"] == "stop"
        check_stop_tokens(server, {**body, "prompt": [5, 6, 7]}, direct)
        check_forced_calls(server)
        check_special_tokens_are_not_spelled(server)
        assert server.metric("twofold:step_tokens_total") > 0
        assert server.stop() == 0
    events = [json.loads(line)["event"] for line in decisions.read_text().splitlines()]
    assert events[0] == "start"
    assert events.count("arrive") == 12
