"""Request fields become the engine's parameters."""

from twofold.serve.chat_schema import ChatRequest
from twofold.serve.completion_schema import CompletionRequest
from twofold.serve.params import sampling_params


def completion(**fields):
    return CompletionRequest.model_validate({"prompt": "x", **fields})


def chat(**fields):
    return ChatRequest.model_validate({"messages": [{"role": "user", "content": "x"}], **fields})


def test_every_field_arrives():
    body = completion(
        temperature=0.5, top_p=0.9, top_k=7, min_p=0.1, seed=3, n=2, repetition_penalty=1.1, presence_penalty=0.2,
        frequency_penalty=0.3, logit_bias={"5": 1.5}, stop="z", stop_token_ids=[4], include_stop_str_in_output=True,
        min_tokens=2, ignore_eos=True, logprobs=3,
    )  # fmt: skip
    assert sampling_params(body, 9).to_map() == {
        "temperature": 0.5, "top_p": 0.9, "top_k": 7, "min_p": 0.1, "seed": 3, "n": 2, "repetition_penalty": 1.1,
        "presence_penalty": 0.2, "frequency_penalty": 0.3, "logit_bias": [[5, 1.5]], "stop": ("z",), "stop_ids": (4,),
        "include_stop": True, "min_tokens": 2, "ignore_eos": True, "logprobs": True, "top_logprobs": 3, "max_tokens": 9,
    }  # fmt: skip


def test_logprobs_of_both_kinds():
    assert sampling_params(completion(logprobs=0), 1).logprobs is True
    assert sampling_params(completion(), 1).logprobs is False
    params = sampling_params(chat(logprobs=True, top_logprobs=4), 1)
    assert (params.logprobs, params.top_logprobs) == (True, 4)
