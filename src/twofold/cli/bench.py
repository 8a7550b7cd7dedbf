"""``twofold bench``."""

import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.bench_report import compared, goodput_table, head, load_report
from twofold.cli.closed import Concurrency, rate_of
from twofold.cli.inputs import read_scenario
from twofold.cli.progress import Report, progress
from twofold.cli.show import print_json
from twofold.cli.simulate import PerRequest, check_target
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.clients.bench import Bench
    from twofold.plan.probe import Probe
    from twofold.spec.slo import Slo
    from twofold.spec.workload import Workload

Summary = dict[str, Any]
KEY = "OPENAI_API_KEY"

Where = Annotated[
    list[str],
    typer.Argument(
        metavar="URL... [TRACE|SCENARIO.yaml]",
        help="One or more servers, each at an address such as http://127.0.0.1:8000, then a trace, `sample` or a "
        "scenario file; leave the last out to make requests from --rate, --requests, --prompt and --output.",
    ),
]
FindGoodput = Annotated[
    bool, typer.Option("--find-goodput", metavar="", help="Bisect the highest rate that keeps the SLO.")
]
ServedModel = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="A model as the server calls it; else its first.")
]
Chat = Annotated[bool, typer.Option("--chat", metavar="", help="Ask for chat completions rather than completions.")]
Timeout = Annotated[str, typer.Option(metavar="TIME", help="Give up on an answer after this long.")]


def run(
    where: Where,
    slo: options.Slo = None,
    concurrency: Concurrency = None,
    find_goodput: FindGoodput = False,
    model: ServedModel = None,
    chat: Chat = False,
    timeout: Timeout = "10min",
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: options.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    settings: options.Set = None,
    json: options.Json = False,
    per_request: PerRequest = None,
) -> None:
    """Put a workload on OpenAI-compatible servers and measure the latencies that a client sees."""
    urls, source = split(where)
    rate = rate_of(concurrency, source, rate, speedup=speedup, arrivals=arrivals)
    drawn = {"prompt": prompt, "output": output, "arrivals": arrivals}
    timed = {"rate": rate, "speedup": speedup, "requests": requests, "seed": seed}
    scenario = read_scenario(source, settings, slo=slo, **timed, **drawn)
    check_target("--per-request", per_request, (".csv", ".parquet"))
    workload, limits = scenario.read_workload(), scenario.read_slo()
    opened = partial(open_bench, model=model, chat=chat, timeout=timeout)
    if find_goodput:
        check_goodput(limits, concurrency, per_request)
        assert limits is not None
        found = [goodput_of(opened, url, workload, limits) for url in urls]
        shown = goodput_table(found)
    else:
        if per_request is not None and len(urls) > 1:
            raise SpecError("--per-request", str(per_request), "one URL, whose requests it holds")
        found = [measured(opened, url, workload, limits, concurrency, per_request) for url in urls]
        shown = load_report(found[0]) if len(found) == 1 else compared(found)
    if json:
        print_json(found[0] if len(found) == 1 else {"servers": found})
    else:
        print(head(workload, concurrency), shown, sep="\n")


def split(where: Sequence[str]) -> tuple[list[str], str | None]:
    """The URLs, and the source of the workload if there is one. SpecError for anything else."""
    from twofold.clients.target import Target, is_url

    urls = [text for text in where if is_url(text)]
    others = [text for text in where if not is_url(text)]
    if not is_url(where[0]):
        Target.parse(where[0])
    if len(others) > 1 or (others and is_url(where[-1])):
        raise SpecError("TRACE", " ".join(others), "one trace or scenario file, after the URLs")
    for url in urls:
        Target.parse(url)
    return urls, others[0] if others else None


def check_goodput(slo: "Slo | None", concurrency: int | None, per_request: Path | None) -> None:
    """SpecError for what goes with no search of a rate."""
    if slo is None:
        raise SpecError(
            "--slo", "", 'a goodput is a rate that keeps limits, such as --slo "ttft<=0.5s, tpot<=50ms @90%"'
        )
    if concurrency is not None:
        raise SpecError("--concurrency", concurrency, "a goodput is a rate; leave --concurrency out")
    if per_request is not None:
        raise SpecError("--per-request", str(per_request), "a search makes many runs; leave --find-goodput out")


def open_bench(url: str, *, model: str | None, chat: bool, timeout: str) -> "Bench":
    """A server that is ready to be measured, asked with the key of the environment."""
    from twofold.clients.bench import Bench
    from twofold.spec.quantity import parse_duration

    timeout_s = parse_duration(timeout, "--timeout")
    if timeout_s <= 0:
        raise SpecError("--timeout", timeout, "a time above 0")
    return Bench(url, model=model, chat=chat, key=os.environ.get(KEY), timeout_s=timeout_s)


def measured(
    opened: "Opened", url: str, workload: "Workload", slo: "Slo | None", concurrency: int | None, rows: Path | None
) -> Summary:
    """The summary of one load; its requests are written to ``rows``."""
    from twofold.clients.bench import watch_of

    with progress() as report:
        tell(report, f"{url}: making prompts")
        with opened(url) as bench:
            result = bench.load(workload, slo, concurrency, watch_of(report, url))
            summary = bench.summary(result)
    if rows is not None:
        result.write_requests(rows)
    return summary


def goodput_of(opened: "Opened", url: str, workload: "Workload", slo: "Slo") -> Summary:
    """The goodput of one server, and the probes that found it."""
    from twofold.clients.bench import watch_of
    from twofold.clients.goodput import sustained

    probes: list[Summary] = []

    def told(probe: "Probe") -> None:
        probes.append({"rate_req_s": probe.rate, "failed_by": probe.failed, "attainment": probe.attainment})

    with progress() as report:
        tell(report, f"{url}: making prompts")
        with opened(url) as bench:
            found = sustained(bench, workload, slo, watch_of(report, url), told)
            served = bench.model
    names = {"url": url, "model": served, "workload": workload.name, "slo": str(slo)}
    result = {"goodput_req_s": found.rate, "attainment": found.attainment, "limit": found.limit}
    return {**names, **result, "probes": probes}


def tell(report: Report | None, text: str) -> None:
    """Show ``text`` where a terminal watches."""
    if report is not None:
        report(0, 1, text)


Opened = partial["Bench"]
