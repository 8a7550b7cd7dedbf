"""vLLM on machines of your own: a ``vllm serve`` for each replica, and vllm-router in front of several."""

from twofold.plan.export.base import Exported, Flags, Order, Target, header
from twofold.plan.export.placement import ROUTER_PORT, SIDE_PORT, Replica, place
from twofold.plan.export.routers import STARTUP_S, router_notes, router_policy
from twofold.plan.export.shell import Expanded, scripts
from twofold.plan.export.vllm_flags import check_vllm, notes, server_flags

WRITTEN_FOR = "vLLM 0.31 with NIXL 1.4 and vllm-router 0.1.17"


def write(order: Order) -> Exported:
    """``serve.sh`` (``serve-1.sh`` and on for several machines) and ``router.sh``; SpecError as of ``check_vllm``."""
    check_vllm(order, "vllm")
    head = header(order, WRITTEN_FOR, [*notes(order), *router_notes(order)])

    def start(replica: Replica) -> tuple[dict[str, str], list[str], Flags]:
        return _server(order, replica)

    return scripts(order, head, start, _router(order) if order.replicas > 1 else None)


def _server(order: Order, replica: Replica) -> tuple[dict[str, str], list[str], Flags]:
    host = Expanded(f"$HOST_{replica.machine}")
    environment = {"CUDA_VISIBLE_DEVICES": ",".join(map(str, replica.devices))}
    if replica.group.role != "both":
        environment["VLLM_NIXL_SIDE_CHANNEL_HOST"] = host
        environment["VLLM_NIXL_SIDE_CHANNEL_PORT"] = str(SIDE_PORT + replica.devices[0])
    listen: Flags = [("--host", host), ("--port", str(replica.port))]
    return environment, ["vllm", "serve", Expanded("$MODEL")], listen + server_flags(order, replica.group)


def _router(order: Order) -> tuple[list[str], Flags]:
    replicas = [replica for machine in place(order) for replica in machine.replicas]
    flags: Flags = [("--host", "0.0.0.0"), ("--port", str(ROUTER_PORT)), ("--policy", router_policy(order))]
    flags.append(("--worker-startup-timeout-secs", str(STARTUP_S)))
    if not order.disaggregated:
        return ["vllm-router"], [*flags, ("--worker-urls", *(Expanded(replica.url) for replica in replicas))]
    flags.append(("--vllm-pd-disaggregation",))
    flags += [(f"--{replica.group.role}", Expanded(replica.url)) for replica in replicas]
    return ["vllm-router"], flags


TARGET = Target("vllm", WRITTEN_FOR, write)
