"""SGLang on machines of your own: a server for each replica, its PD multiplexing file, and the SGLang router."""

from twofold.plan.export.base import Exported, File, Flags, Order, Target, header
from twofold.plan.export.manifests import document
from twofold.plan.export.placement import BOOTSTRAP_PORT, ROUTER_PORT, Replica, place
from twofold.plan.export.routers import STARTUP_S, router_notes, router_policy
from twofold.plan.export.sglang_flags import check_sglang, notes, pdmux_config, server_flags
from twofold.plan.export.shell import Expanded, scripts

WRITTEN_FOR = "SGLang 0.5.23 and sglang-router 0.3.2"
SERVER = ("python3", "-m", "sglang.launch_server")
ROUTER = ("python3", "-m", "sglang_router.launch_router")


def write(order: Order) -> Exported:
    """The scripts of ``shell.scripts`` and a ``pdmux.yaml`` for each multiplexed group; SpecError as of the check."""
    check_sglang(order)
    head = header(order, WRITTEN_FOR, [*notes(order), *router_notes(order)])

    def start(replica: Replica) -> tuple[dict[str, str], list[str], Flags]:
        return _server(order, replica)

    exported = scripts(order, head, start, _router(order) if order.replicas > 1 else None)
    return Exported((*exported.files, *_pdmux_files(order, head)), exported.start)


def _pdmux_name(order: Order, place: int) -> str:
    return "pdmux.yaml" if len(order.groups) == 1 else f"pdmux-{place + 1}.yaml"


def _pdmux_files(order: Order, head: str) -> list[File]:
    configs = [pdmux_config(group) for group in order.groups]
    return [
        File(_pdmux_name(order, place), head + document(config))
        for place, config in enumerate(configs)
        if config is not None
    ]


def _server(order: Order, replica: Replica) -> tuple[dict[str, str], list[str], Flags]:
    group, host = replica.group, Expanded(f"$HOST_{replica.machine}")
    pdmux = Expanded('$(dirname -- "$0")/' + _pdmux_name(order, replica.place))
    flags: Flags = [("--model-path", Expanded("$MODEL")), ("--host", host), ("--port", str(replica.port))]
    flags += server_flags(order, group, pdmux)
    if group.role != "both":
        flags += [("--disaggregation-mode", group.role), ("--disaggregation-transfer-backend", "nixl")]
    if group.role == "prefill":
        flags.append(("--disaggregation-bootstrap-port", _bootstrap(replica)))
    return {"CUDA_VISIBLE_DEVICES": ",".join(map(str, replica.devices))}, list(SERVER), flags


def _bootstrap(replica: Replica) -> str:
    return str(BOOTSTRAP_PORT + replica.devices[0])


def _router(order: Order) -> tuple[list[str], Flags]:
    replicas = [replica for machine in place(order) for replica in machine.replicas]
    flags: Flags = [("--host", "0.0.0.0"), ("--port", str(ROUTER_PORT)), ("--policy", router_policy(order))]
    flags.append(("--worker-startup-timeout-secs", str(STARTUP_S)))
    if not order.disaggregated:
        return list(ROUTER), [*flags, ("--worker-urls", *(Expanded(replica.url) for replica in replicas))]
    flags.append(("--pd-disaggregation",))
    for replica in replicas:
        bootstrap = (_bootstrap(replica),) if replica.group.role == "prefill" else ()
        flags.append((f"--{replica.group.role}", Expanded(replica.url), *bootstrap))
    return list(ROUTER), flags


TARGET = Target("sglang", WRITTEN_FOR, write)
