"""Twofold: how should prefill and decode share your devices? Plan it, prove it on a simulator, serve it.

    import twofold

    workload = twofold.read_workload("trace.csv")
    deployment = twofold.deployment("4B,chunked=512", model="llama-3-8b", device="H100")
    result = twofold.simulate(workload, deployment, slo="ttft<=0.5s, tpot<=20ms @90%")
    print(result.summary()["attainment"], result.requests.head())

Names are loaded on first use, so that importing the package costs nothing.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.errors import SpecError as SpecError
    from twofold.plan.search import plan as plan
    from twofold.scheduler.policies import policy as policy
    from twofold.simulate.result import Result as Result
    from twofold.simulate.run import simulate as simulate
    from twofold.spec.notation import parse_deployment
    from twofold.spec.slo import Slo as Slo
    from twofold.spec.synthetic import Synthetic as Synthetic
    from twofold.spec.traces import read_workload as read_workload
    from twofold.spec.workload import Workload as Workload

    deployment = parse_deployment

__version__ = "0.1.0"

_HOMES = {
    "SpecError": "errors",
    "Result": "simulate.result",
    "Slo": "spec.slo",
    "Synthetic": "spec.synthetic",
    "Workload": "spec.workload",
    "deployment": "spec.notation:parse_deployment",
    "plan": "plan",
    "policy": "scheduler.policies",
    "read_workload": "spec.traces",
    "simulate": "simulate",
}
__all__ = [*_HOMES, "__version__"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    module, _, original = _HOMES[name].partition(":")
    home = import_module(f"{__name__}.{module}")
    value = home if module == name else getattr(home, original or name)
    globals()[name] = value
    return value
