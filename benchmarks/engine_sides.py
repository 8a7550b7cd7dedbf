"""One engine in a process of its own: ``python -m benchmarks.engine_sides SIDE MODEL THREADS``.

It reads cases as lines of JSON and answers each with the marks of one run, also JSON. It imports what its side needs
and nothing else, so that the interpreter of another environment can run it.
"""

from __future__ import annotations

import functools
import json
import os
import random
import sys
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

VOCABULARY = 49152
CONTEXT = 2048
REQUESTS, BLOCKS = 16, 1024


class Mark(NamedTuple):
    """Seconds since the start of a run, on the wall and of this process's CPU."""

    wall_s: float
    cpu_s: float


class Marks(NamedTuple):
    """When every request had its first token, and the end; the share of the run that was spent on scheduling."""

    first: Mark
    last: Mark
    scheduling: float | None = None


Run = Callable[[list[int], list[int]], Marks]
"""Answers requests that all come at once, given the tokens of each prompt and of each output."""


def prompt(number: int, tokens: int) -> list[int]:
    """Token ids that depend on the request's number, so that no prefix is shared."""
    return random.Random(number).choices(range(1000, VOCABULARY), k=tokens)


def stopwatch() -> Callable[[], Mark]:
    """Marks since now."""
    wall, cpu = time.perf_counter(), time.process_time()
    return lambda: Mark(time.perf_counter() - wall, time.process_time() - cpu)


class Stints:
    """Wall seconds that a method takes in all."""

    def __init__(self, owner: type, name: str) -> None:
        self.seconds, self._method = 0.0, getattr(owner, name)
        setattr(owner, name, lambda *given: self._timed(*given))

    def _timed(self, *given: Any) -> Any:
        began = time.perf_counter()
        try:
            return self._method(*given)
        finally:
            self.seconds += time.perf_counter() - began


def twofold(model: str, threads: int, dtype: str = "fp32", quantize: str | None = None) -> Run:
    """This project's engine, chunked at 512 tokens."""
    import torch

    from twofold.engine.engine import Engine
    from twofold.engine.load import load
    from twofold.engine.params import Params
    from twofold.engine.planner import Planner
    from twofold.engine.pool import Pool
    from twofold.engine.sampling import Sampler
    from twofold.spec.device import this_cpu
    from twofold.spec.notation import parse_groups

    loaded = load(model, dtype=dtype, quantize=quantize)
    torch.set_num_threads(threads)
    group = parse_groups(f"1B,chunked=512,batch={REQUESTS}")[0].replaced(prefix_cache=False)
    engine = Engine(
        loaded.decoder,
        Pool.sized(loaded.model, dtype, blocks=BLOCKS, block_tokens=group.block_tokens),
        Sampler(REQUESTS, loaded.model.vocab),
        model=loaded.model,
        group=group,
        device=this_cpu(),
        eos_ids=(),
        context=CONTEXT,
        requests=REQUESTS,
    )
    stints = [Stints(Planner, "plan"), Stints(Planner, "end")]

    def run(prompts: list[int], outputs: list[int]) -> Marks:
        mark, began, first = stopwatch(), sum(stint.seconds for stint in stints), None
        for number, (tokens, output) in enumerate(zip(prompts, outputs, strict=True)):
            engine.add(str(number), prompt(number, tokens), Params(temperature=0.0, max_tokens=output))
        waiting = {str(number) for number in range(len(prompts))}
        while engine.has_work:
            waiting.difference_update(output.id for output in engine.step())
            first = first or (None if waiting else mark())
        last = mark()
        return Marks(first or last, last, (sum(stint.seconds for stint in stints) - began) / last.wall_s)

    return run


def transformers(model: str, threads: int) -> Run:
    """Hugging Face's generate, greedy; a batch is padded on the left and runs as long as its longest output."""
    import torch
    from transformers import AutoModelForCausalLM, StoppingCriteria, StoppingCriteriaList

    torch.set_num_threads(threads)
    causal = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32).eval()

    class Marking(StoppingCriteria):  # type: ignore[misc, unused-ignore]
        def __init__(self) -> None:
            self.mark, self.first = stopwatch(), None

        def __call__(self, ids: Any, scores: Any, **_: Any) -> Any:
            self.first = self.first or self.mark()
            return torch.zeros(len(ids), dtype=torch.bool)

    def run(prompts: list[int], outputs: list[int]) -> Marks:
        longest = max(prompts)
        rows = [[0] * (longest - tokens) + prompt(number, tokens) for number, tokens in enumerate(prompts)]
        mask = [[0] * (longest - tokens) + [1] * tokens for tokens in prompts]
        marking = Marking()
        with torch.inference_mode():
            causal.generate(
                torch.tensor(rows),
                attention_mask=torch.tensor(mask),
                max_new_tokens=max(outputs),
                min_new_tokens=max(outputs),
                do_sample=False,
                pad_token_id=0,
                stopping_criteria=StoppingCriteriaList([marking]),
            )
        last = marking.mark()
        return Marks(marking.first or last, last)

    return run


def vllm(model: str, threads: int) -> Run:
    """The CPU build of vLLM, its engine in this process, without prefix caching."""
    os.environ |= {
        "VLLM_ENABLE_V1_MULTIPROCESSING": "0",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "VLLM_CPU_OMP_THREADS_BIND": "nobind",
        "OMP_NUM_THREADS": str(threads),
        "HF_HUB_OFFLINE": "1",
    }
    from vllm import LLM, SamplingParams

    llm = LLM(model, dtype="float32", max_model_len=CONTEXT, max_num_seqs=REQUESTS, enable_prefix_caching=False)
    engine = llm.llm_engine

    def run(prompts: list[int], outputs: list[int]) -> Marks:
        mark, first = stopwatch(), None
        for number, (tokens, output) in enumerate(zip(prompts, outputs, strict=True)):
            given = {"prompt_token_ids": prompt(number, tokens)}
            engine.add_request(
                str(number), given, SamplingParams(temperature=0.0, max_tokens=output, min_tokens=output)
            )
        waiting = {str(number) for number in range(len(prompts))}
        while engine.has_unfinished_requests():
            waiting.difference_update(each.request_id for each in engine.step() if each.outputs[0].token_ids)
            first = first or (None if waiting else mark())
        last = mark()
        return Marks(first or last, last)

    return run


def limits(model: str, threads: int) -> Run:
    """What this machine allows: prompts at the rate of its matrix products, then a read of all weights a token."""
    import torch

    from twofold.engine.linear import Packed, Plain
    from twofold.engine.load import load

    sizes = load(model).model
    torch.set_num_threads(threads)
    heads = (sizes.heads + 2 * sizes.kv_heads) * sizes.head_dim
    feed_forward = (sizes.hidden, 2 * sizes.ffn), (sizes.ffn, sizes.hidden)
    shapes = (sizes.hidden, heads), (sizes.heads * sizes.head_dim, sizes.hidden), *feed_forward
    matrices = [[torch.randn(outputs, inputs) for inputs, outputs in shapes] for _ in range(sizes.layers)]
    ways = [[[way(each, None) for each in layer] for layer in matrices] for way in (Packed, Plain)]
    weights = torch.ones(sum(each.numel() for layer in matrices for each in layer) + sizes.vocab * sizes.hidden)

    def multiplied(tokens: int, way: list[list[Any]]) -> Mark:
        rows, mark = {inputs: torch.randn(tokens, inputs) for inputs, _ in shapes}, stopwatch()
        for layer in way:
            for (inputs, _), product in zip(shapes, layer, strict=True):
                product(rows[inputs])
        return mark()

    def read(times: int) -> Mark:
        mark = stopwatch()
        for _ in range(times):
            weights.sum()
        return mark()

    def run(prompts: list[int], outputs: list[int]) -> Marks:
        with torch.inference_mode():
            first = min(multiplied(sum(prompts), way) for way in ways)
            rest = read(max(outputs) - 1)
        return Marks(first, Mark(first.wall_s + rest.wall_s, first.cpu_s + rest.cpu_s))

    return run


def llama_cpp(model: str, threads: int) -> Run:
    """The llama.cpp in xllamacpp, on the GGUF file it is given; its server in this process, one slot a request."""
    import concurrent.futures

    import xllamacpp

    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel = model, CONTEXT * REQUESTS, REQUESTS
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.warmup = False
    server, pool = xllamacpp.Server(params), concurrent.futures.ThreadPoolExecutor(REQUESTS)

    def answered(number: int, tokens: int, output: int) -> float:
        """Seconds until the first token of the request."""
        body = {"prompt": prompt(number, tokens), "n_predict": output, "ignore_eos": True, "cache_prompt": False}
        timings = server.handle_completions(body | {"temperature": 0.0})["timings"]
        return float(timings["prompt_ms"]) / 1e3

    def run(prompts: list[int], outputs: list[int]) -> Marks:
        mark = stopwatch()
        first = max(pool.map(answered, range(len(prompts)), prompts, outputs))
        last = mark()
        return Marks(Mark(first, last.cpu_s * first / last.wall_s), last)

    return run


SIDES: dict[str, Callable[[str, int], Run]] = {
    "twofold": twofold,
    "twofold bf16": functools.partial(twofold, dtype="bf16"),
    "twofold int8": functools.partial(twofold, quantize="int8"),
    "transformers": transformers,
    "vllm": vllm,
    "llama.cpp": llama_cpp,
    "limits": limits,
}


def main(side: str, model: str, threads: str, lines: Iterable[str] = sys.stdin) -> None:
    """Answer cases until the input ends; what libraries print goes to the standard error."""
    answers = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    run = SIDES[side](model, int(threads))
    run([8], [2])
    print("ready", file=answers)
    for line in lines:
        case = json.loads(line)
        print(json.dumps(run(case["prompts"], case["outputs"])), file=answers)


if __name__ == "__main__":
    main(*sys.argv[1:])
