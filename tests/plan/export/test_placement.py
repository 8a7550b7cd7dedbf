from hypothesis import given
from hypothesis import strategies as st

from twofold.plan.document import Chosen
from twofold.plan.export.base import Order
from twofold.plan.export.placement import place
from twofold.spec import catalog
from twofold.spec.deployment import Deployment
from twofold.spec.group import Group
from twofold.spec.slo import Slo

GROUPS = st.lists(
    st.builds(
        Group,
        count=st.integers(1, 5),
        tp=st.sampled_from([1, 2, 4, 8]),
        device=st.sampled_from(["H100", "A100"]),
    ),
    min_size=1,
    max_size=4,
)


@given(GROUPS)
def test_replicas_share_machines_but_no_device_and_no_port(groups: list[Group]) -> None:
    model = catalog.model("llama-3-8b")
    deployment = Deployment(model=model, groups=tuple(groups))
    order = Order(Chosen(1, deployment, model, Slo.parse("ttft<=1s"), 1.0, {}), "org/model")
    machines = place(order)
    assert [machine.number for machine in machines] == list(range(1, len(machines) + 1))
    assert sum(len(machine.replicas) for machine in machines) == order.replicas
    for machine in machines:
        devices = [index for replica in machine.replicas for index in replica.devices]
        assert sorted(devices) == list(range(machine.used))
        assert machine.used <= machine.device.devices_per_node
        assert len({replica.port for replica in machine.replicas}) == len(machine.replicas)
        for replica in machine.replicas:
            assert order.device(replica.group) == machine.device
            assert len(replica.devices) == replica.group.tp
            assert replica.machine == machine.number
