"""``twofold plan``."""

import json as encoding
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli import options
from twofold.cli.inputs import read_roofline, read_scenario
from twofold.cli.progress import progress
from twofold.cli.ranking import plan_report
from twofold.cli.show import print_json, to_plain
from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.plan.pool import Pool
    from twofold.plan.ranking import Plan
    from twofold.spec.scenario import Scenario
    from twofold.spec.workload import Workload

LISTED = 10
SEARCHED = ("deployment", "device", "link", "router", "transfer", "layerwise")
SEARCH = "Search"
INTERRUPTED = 130

Gpus = Annotated[
    str | None,
    typer.Option(
        "--gpus",
        metavar="BUDGET",
        help='Devices to spend, such as 8xH100 or "8xH100 + 16xA100"; kinds alone, as in "H100 + A100", with --within '
        "or a --target-rate.",
    ),
]
Within = Annotated[
    str | None, typer.Option(metavar="AMOUNT", help="What all may cost or draw, such as 150$/h or 40kW.")
]
Aim = Annotated[
    str,
    typer.Option(
        "--objective",
        metavar="WHAT",
        help="goodput, goodput-per-gpu, goodput-per-dollar or goodput-per-watt; or, for a --target-rate, cost, power "
        "or pareto.",
    ),
]
TargetRate = Annotated[
    float | None, typer.Option(metavar="R", help="Requests a second that must be served, for the least.")
]
Requests = Annotated[
    str | None,
    typer.Option(
        metavar="N",
        help="Replay the first N requests at every rate tried, or make N; 5000 when not given.",
        rich_help_panel=options.WORKLOAD,
    ),
]
Robust = Annotated[
    list[str] | None,
    typer.Option(
        metavar="TRACE",
        help="Choose what loses least on this workload as well; may be repeated.",
        rich_help_panel=options.WORKLOAD,
    ),
]
Time = Annotated[
    str | None,
    typer.Option(
        "--time",
        metavar="T",
        help="Stop after so long, such as 30s, and say how far from the best.",
        rich_help_panel=SEARCH,
    ),
]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", min=1, help="Simulate on N cores; all of them when not given.", rich_help_panel=SEARCH),
]
Ray = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Simulate on a Ray cluster (extra twofold[ray]), such as auto.", rich_help_panel=SEARCH
    ),
]
Cache = Annotated[
    bool,
    typer.Option(
        "--cache/--no-cache",
        metavar="",
        help="Use what earlier searches have simulated, and keep this.",
        rich_help_panel=SEARCH,
    ),
]
Resamples = Annotated[
    int,
    typer.Option(metavar="N", min=0, help="Resamplings behind the 90 % intervals; 0 for none.", rich_help_panel=SEARCH),
]
Top = Annotated[
    int, typer.Option(metavar="N", min=1, help="Prove and show the N best.", rich_help_panel=options.OUTPUT)
]
Explain = Annotated[
    bool,
    typer.Option(
        "--explain",
        metavar="",
        help="Say what binds the best, and what would change it.",
        rich_help_panel=options.OUTPUT,
    ),
]
Save = Annotated[
    Path | None,
    typer.Option(metavar="FILE.json", help="Write the plan, for `twofold export`.", rich_help_panel=options.OUTPUT),
]
Report = Annotated[
    Path | None,
    typer.Option(metavar="FILE.html", help="Write the evidence as one page.", rich_help_panel=options.OUTPUT),
]
Pictures = Annotated[
    Path | None,
    typer.Option(
        metavar="FOLDER", help="Write the pictures of the page as .svg and .png.", rich_help_panel=options.OUTPUT
    ),
]


def run(
    source: options.Source = None,
    model: options.Model = None,
    gpus: Gpus = None,
    slo: options.Slo = None,
    within: Within = None,
    objective: Aim = "goodput",
    target_rate: TargetRate = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    robust: Robust = None,
    settings: options.Set = None,
    time: Time = None,
    workers: Workers = None,
    ray: Ray = None,
    cache: Cache = True,
    resamples: Resamples = 6,
    json: options.Json = False,
    top: Top = LISTED,
    explain: Explain = False,
    save: Save = None,
    report: Report = None,
    pictures: Pictures = None,
) -> None:
    """Find the deployment with the highest goodput on a budget, and prove it."""
    scenario = read_scenario(
        source,
        settings,
        model=model,
        slo=slo,
        rate=rate,
        speedup=speedup,
        requests=requests,
        prompt=prompt,
        output=output,
        arrivals=arrivals,
        seed=seed,
    )
    wanted = _wanted(scenario, gpus)
    wanted |= {"within": within, "objective": objective, "target_rate": target_rate, "keep": top}
    wanted |= {"time_limit_s": _seconds(time), "samples": resamples, "cached": cache}
    with _pool(workers, ray) as pool, progress() as shown:
        found = _planned(scenario, robust, wanted | {"pool": pool, "progress": shown})
    _write(found, save, report, pictures)
    if json:
        print_json(found.to_dict())
        return
    print(plan_report(found, top))
    if found.regret is not None:
        from twofold.cli.explanation import regret_table

        print("", regret_table(found.regret), sep="\n")
    if explain:
        print("", _explained(found), sep="\n")
    if found.certificate.stopped == "interrupted":
        raise typer.Exit(INTERRUPTED)


def _wanted(scenario: "Scenario", gpus: str | None) -> dict[str, Any]:
    """What a scenario asks a plan for; SpecError for a field that it would not heed."""
    for field in SEARCHED:
        if (value := getattr(scenario, field)) is not None:
            raise SpecError(field, value, "plan chooses it; leave it out")
    if gpus is None:
        raise SpecError("--gpus", "", "say which devices there are, such as 8xH100")
    if scenario.model is None:
        raise SpecError("--model", "", "name a model of `twofold models`, or a config.json")
    slo = scenario.read_slo()
    if slo is None:
        raise SpecError("--slo", "", 'give the limits to meet, such as "ttft<=0.5s, tpot<=20ms @90%"')
    scenario.load_catalog()
    return {"budget": gpus, "model": scenario.model, "slo": slo, "roofline": read_roofline(scenario)}


def _planned(scenario: "Scenario", robust: Sequence[str] | None, wanted: dict[str, Any]) -> "Plan":
    from twofold.plan.robust_plan import plan_robustly
    from twofold.plan.search import REQUESTS, plan

    workload = scenario.read_workload()
    wanted["requests"] = len(workload) if _counted(scenario) else REQUESTS
    if not robust:
        return plan(workload, **wanted)
    return plan_robustly([workload, *(_other(scenario, trace) for trace in robust)], **wanted)


def _counted(scenario: "Scenario") -> bool:
    """Whether the number of requests has been given."""
    written = scenario.workload
    return scenario.requests is not None or (isinstance(written, dict) and "requests" in written)


def _other(scenario: "Scenario", trace: str) -> "Workload":
    """Another workload for the same plan."""
    from twofold.spec.traces import read_workload

    workload = read_workload(trace, seed=scenario.seed or 0)
    return workload if scenario.requests is None else workload.head(scenario.requests)


def _seconds(text: str | None) -> float | None:
    if text is None:
        return None
    from twofold.spec.quantity import parse_duration

    seconds = parse_duration(text, "--time")
    if seconds <= 0:
        raise SpecError("--time", text, "a time above 0, such as 30s")
    return seconds


@contextmanager
def _pool(workers: int | None, address: str | None) -> "Iterator[Pool]":
    from twofold.plan.pool import Threads

    if address is not None and workers is not None:
        raise SpecError("--workers", workers, "a Ray cluster has its own; leave it out")
    if address is None:
        pool: Pool = Threads(workers or os.cpu_count() or 1)
    else:
        from twofold.plan.ray_pool import RayPool

        pool = RayPool(address)
    with closing(pool):
        yield pool


def _write(found: "Plan", save: Path | None, report: Path | None, pictures: Path | None) -> None:
    """Write the files that were asked for."""
    if save is not None:
        save.write_text(encoding.dumps(to_plain(found.to_dict()), indent=2, ensure_ascii=False) + "\n", "utf-8")
    if report is None and pictures is None:
        return
    from twofold.plan.report import write_pictures, write_report
    from twofold.plan.report.evidence import gather

    with progress() as shown:
        evidence = gather(found, shown)
    if report is not None:
        write_report(found, report, shlex.join(["twofold", *sys.argv[1:]]), evidence=evidence)
    if pictures is not None:
        write_pictures(found, pictures, evidence=evidence)


def _explained(found: "Plan") -> str:
    from twofold.cli.explanation import explanation
    from twofold.plan.explain import explain

    best = found.best
    return explanation(explain(found.workload, best.deployment, found.slo, best.found.rate, roofline=found.roofline))
