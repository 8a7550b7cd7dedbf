"""Tokens to the devices of their experts and back: DeepEP's all-to-all, by the tokens that each device has."""

from typing import Any

import numpy as np
import polars as pl
import yaml
from numpy.typing import NDArray

from twofold.cost.silicon.kernels import MICRO, Kernels, columns, read_table
from twofold.cost.silicon.products import at
from twofold.errors import SpecError
from twofold.spec.model import Model

Floats = NDArray[np.float64]
LOW_LATENCY_TOKENS = 128
"""Up to so many tokens a device the low-latency kernels (SGLang's default), beyond them the normal ones."""
DEFAULT_SMS = (0, 20)
"""DeepEP's default of SMs that copy; 0 where the kernel chooses."""
DTYPES = ("default", "bfloat16")
SHAPE = {"hidden_size": "hidden", "num_experts": "experts"}


def all_to_all(kernels: Kernels, model: Model, ep: int, tokens: Floats) -> Floats:
    """float64[tokens]: seconds of one dispatch and one combine of ``tokens`` of each of ``ep`` devices."""
    low, normal = (_measured(kernels, model, ep, fast) for fast in (True, False))
    return np.where(tokens <= LOW_LATENCY_TOKENS, at(*low, tokens), at(*normal, tokens))


def _measured(kernels: Kernels, model: Model, ep: int, fast: bool) -> tuple[Floats, Floats]:
    """(tokens a device, seconds of both ways) in one machine."""
    rows = _engines(kernels, fast)
    if rows is None:
        rows = _wide(kernels, fast)
    if rows is None:
        raise SpecError("cost.file", str(kernels), "accepted without +deepep: it has no table of an all-to-all")
    shaped = rows.filter(
        pl.col("topk") == model.experts_per_token,
        *(pl.col(theirs) == getattr(model, ours) for theirs, ours in SHAPE.items()),
    )
    found = shaped.filter(pl.col("ep_size") == ep).sort("num_tokens")
    if len(found) < 2:
        asked = f"{model.experts_per_token} of {model.experts} experts, hidden {model.hidden}, at ep {ep}"
        known = ", ".join(map(str, sorted(set(shaped["ep_size"])))) or "no such experts"
        raise SpecError("ep", asked, f"accepted with the all-to-all of {kernels}: {known}")
    return found["num_tokens"].to_numpy().astype(np.float64), MICRO * found["us"].to_numpy()


def _engines(kernels: Kernels, fast: bool) -> pl.DataFrame | None:
    """Each direction a row."""
    file = kernels.find("comm", "moe_a2a")
    if file is None:
        return None
    place = ("ep_size", *SHAPE, "topk", "num_tokens")
    names = ("comm_backend", "comm_dtype", "node_num", "phase", "sms", *place, "latency")
    table = columns(file, read_table(file), *names).filter(
        pl.col("comm_backend").str.ends_with("deepep_ll" if fast else "deepep_ht"),
        pl.col("comm_dtype").is_in(DTYPES),
        pl.col("node_num") == 1,
        pl.col("sms").is_in(DEFAULT_SMS),
    )
    ways = table.group_by(*place, "phase").agg(pl.col("latency").median())
    both = ways.group_by(*place).agg(pl.col("latency").sum().alias("us"), pl.len())
    return both.filter(pl.col("len") == 2)


def _wide(kernels: Kernels, fast: bool) -> pl.DataFrame | None:
    """SGLang's form: both directions a row, over all devices of a machine."""
    file = kernels.find("comm", f"wideep_deepep_{'ll' if fast else 'normal'}")
    if file is None:
        return None
    shape = ("node_num", *SHAPE, "num_topk", "num_token")
    times = ("dispatch_avg_t_us", "combine_avg_t_us") if fast else ("dispatch_transmit_us", "combine_transmit_us")
    table = columns(file, read_table(file), *shape, *times, *(() if fast else ("dispatch_sms", "combine_sms")))
    if not fast:
        table = table.filter(pl.col("dispatch_sms").is_in(DEFAULT_SMS), pl.col("combine_sms").is_in(DEFAULT_SMS))
    here = table.filter(pl.col("node_num") == 1).rename({"num_topk": "topk", "num_token": "num_tokens"})
    summed = here.with_columns(us=pl.sum_horizontal(*times), ep_size=pl.lit(_machine(kernels)))
    return summed.group_by("ep_size", *SHAPE, "topk", "num_tokens").agg(pl.col("us").median())


def _machine(kernels: Kernels) -> int:
    """Devices of one machine, by the package's description of the system."""
    file = kernels.folder.parent.parent / f"{kernels.folder.name}.yaml"
    try:
        described: dict[str, Any] = yaml.safe_load(file.read_text(encoding="utf-8"))
        return int(described["node"]["num_gpus_per_node"])
    except (OSError, yaml.YAMLError, LookupError, TypeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise SpecError("cost.file", file.name, f"accepted: node.num_gpus_per_node ({reason})") from None
