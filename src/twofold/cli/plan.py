"""``twofold plan``."""

import json as encoding
import os
import shlex
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from twofold.cli import options, plan_flags
from twofold.cli.again import Again, again
from twofold.cli.inputs import SCENARIO_ENDINGS, read_roofline, read_unplaced
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
INTERRUPTED = 130


def run(
    source: options.Source = None,
    model: options.Model = None,
    gpus: plan_flags.Gpus = None,
    slo: options.Slo = None,
    within: plan_flags.Within = None,
    objective: plan_flags.Aim = "goodput",
    target_rate: plan_flags.TargetRate = None,
    system: plan_flags.For = None,
    rate: options.Rate = None,
    speedup: options.Speedup = None,
    requests: plan_flags.Requests = None,
    prompt: options.Prompt = None,
    output: options.Output = None,
    arrivals: options.Arrivals = None,
    seed: options.Seed = None,
    robust: plan_flags.Robust = None,
    cost: options.Cost = None,
    settings: options.Set = None,
    time: plan_flags.Time = None,
    workers: plan_flags.Workers = None,
    ray: plan_flags.Ray = None,
    cache: plan_flags.Cache = True,
    resamples: plan_flags.Resamples = 6,
    json: options.Json = False,
    top: plan_flags.Top = LISTED,
    explain: plan_flags.Explain = False,
    save: plan_flags.Save = None,
    report: plan_flags.Report = None,
    pictures: plan_flags.Pictures = None,
) -> None:
    """Find the deployment with the highest goodput on a budget, and prove it."""
    drawn = {"prompt": prompt, "output": output, "arrivals": arrivals, "seed": seed}
    timed = {"rate": rate, "speedup": speedup, "requests": requests}
    scenario = read_unplaced(source, settings, model=model, slo=slo, cost=cost, **timed, **drawn)
    wanted = _wanted(scenario, gpus)
    wanted |= {"within": within, "objective": objective, "target_rate": target_rate, "system": system}
    wanted |= {"keep": top, "samples": resamples, "cached": cache, "time_limit_s": _seconds(time)}
    _check_writable(save, report, pictures)
    with _pool(workers, ray) as pool, progress() as shown:
        found = _planned(scenario, robust, wanted | {"pool": pool, "progress": shown})
    interrupted = found.certificate.stopped == "interrupted"
    made = {"rate": rate, "requests": requests, **drawn}
    simulated = again(found, source, made, cost, settings)
    document = found.to_dict() | _source(found, source, simulated)
    if not interrupted:
        _warn(found)
    if json:
        print_json(document)
    else:
        print(plan_report(found, top))
        _tell_more(found, simulated, explain and not interrupted)
    _write(found, document, save, *((None, None) if interrupted else (report, pictures)))
    if interrupted:
        raise typer.Exit(INTERRUPTED)


def _tell_more(found: "Plan", simulated: Again, explain: bool) -> None:
    from twofold.cli.explanation import regret_table

    if simulated.told:
        print("", simulated.told, sep="\n")
    if found.regret is not None:
        print("", regret_table(found.regret), sep="\n")
    if explain:
        print("", _explained(found), sep="\n")


def _check_writable(save: Path | None, report: Path | None, pictures: Path | None) -> None:
    """Before a long search: SpecError for files that could not be written after it."""
    for flag, path in (("--save", save), ("--report", report)):
        if path is not None and not path.absolute().parent.is_dir():
            raise SpecError(flag, str(path), f"no folder {path.parent}")
        if path is not None and path.is_dir():
            raise SpecError(flag, str(path), "it is a folder; name a file")
    if pictures is not None and pictures.exists() and not pictures.is_dir():
        raise SpecError("--pictures", str(pictures), "it is a file; name a folder")
    if report is not None or pictures is not None:
        from twofold.plan.report.drawing import need_pictures

        need_pictures()


def _wanted(scenario: "Scenario", gpus: str | None) -> dict[str, Any]:
    """What a scenario asks a plan for; SpecError for a field that it would not heed."""
    for field in SEARCHED:
        if (value := getattr(scenario, field)) is not None:
            raise SpecError(field, value, "plan chooses it; leave it out")
    if gpus is None:
        raise SpecError("--gpus", None, "say which devices there are, such as 8xH100")
    if scenario.model is None:
        raise SpecError("--model", None, "name a model of `twofold models`, or a config.json")
    slo = scenario.read_slo()
    if slo is None:
        raise SpecError("--slo", None, 'give the limits to meet, such as "ttft<=0.5s, tpot<=20ms @90%"')
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


def _source(found: "Plan", source: str | None, simulated: Again) -> dict[str, Any]:
    """The command, and the trace that was planned for, for `twofold export` to find; empty for a scenario file."""
    if source is None:
        return {"as_simulated": simulated.command}
    if source.endswith(SCENARIO_ENDINGS):
        return {}
    trace = source if source == "sample" else str(Path(source).absolute())
    return {"source": {"trace": trace, "requests": len(found.workload)}, "as_simulated": simulated.command}


def _write(
    found: "Plan", document: dict[str, Any], save: Path | None, report: Path | None, pictures: Path | None
) -> None:
    """Write the files that were asked for."""
    if save is not None:
        save.write_text(encoding.dumps(to_plain(document), indent=2, ensure_ascii=False) + "\n", "utf-8")
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
    from twofold.plan.searches import longer

    best = found.best
    asked = found.workload if best.trap is None else longer(found.workload)
    return explanation(explain(asked, best.deployment, found.slo, best.found.rate, roofline=found.roofline))


def _warn(found: "Plan") -> None:
    """Say how far the best goes beyond what its cost model was measured for, at its goodput."""
    from twofold.cli.reach import beyond, reaches, warn
    from twofold.plan.searches import longer
    from twofold.simulate.run import simulate

    best, costs = found.best, found.roofline
    if costs is None or not reaches(costs, found.model, best.deployment):
        return
    asked = found.workload if best.trap is None else longer(found.workload)
    warn(beyond(costs, simulate(asked.at_rate(best.found.rate), best.deployment, found.slo, roofline=costs)))
