from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.errors import SpecError
from twofold.spec.deployment import Deployment, Group
from twofold.spec.group import ROLE_POLICY
from twofold.spec.notation import EXAMPLES, format_deployment, parse_budget, parse_deployment, parse_groups

WHOLE = st.integers(1, 10**6)
REAL = st.floats(0.001, 1e6)


def optional(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.none() | strategy


POLICY_FIELDS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "chunked": {"budget_tokens": WHOLE, "prefill_every": optional(WHOLE)},
    "multiplexed": {
        "split": st.sampled_from(["pdmux", "slo", "80:52"]),
        "sm_group_num": st.integers(3, 99),
        "split_forward_token_budget": WHOLE,
        "decode_bs_divisor": WHOLE,
        "split_curve": st.sampled_from(["measured", "saturation:0.5", "saturation:0.25"]),
        "contention_decode": st.floats(1, 9),
        "contention_prefill": st.floats(1, 9),
    },
    "my-policy": {"budget_s": optional(REAL), "prefill_every": optional(WHOLE)},
}


@st.composite
def groups(draw: st.DrawFn, role: str) -> Group:
    policies = {"both": ["chunked", "mixed", "request-level", "multiplexed"], "prefill": ["mixed", "chunked"]}
    policy = draw(st.sampled_from([*policies.get(role, []), ROLE_POLICY[role], "my-policy"]))
    fields = {
        "count": WHOLE,
        "tp": st.integers(1, 64),
        "pp": st.integers(1, 64),
        "device": optional(st.sampled_from(["H100", "A100-40GB", "RTX PRO 6000"])),
        "expert_parallel": st.booleans(),
        "max_batch": WHOLE,
        "memory_fraction": st.floats(0.01, 1),
        "block_tokens": WHOLE,
        "admission": st.sampled_from(["grow", "reserve"]),
        "prefix_cache": optional(st.booleans()),
        "host_kv_bytes": st.integers(0, 2**50),
        "disk_kv_bytes": st.integers(0, 2**50),
        "order": st.sampled_from(["fcfs", "priority", "short-first"]),
        "ageing_s": REAL,
        "power_cap_w": optional(REAL),
        **POLICY_FIELDS.get(policy, {}),
    }
    if role == "prefill":
        fields["prefill_batch_tokens"] = optional(WHOLE)
    if role == "both" and policy == "prefill-first":
        fields["decode_every"] = optional(WHOLE)
    if role != "decode":
        fields["max_prefill_tokens"] = WHOLE
    chosen = draw(st.sets(st.sampled_from(sorted(fields))))
    return Group(role=role, policy=policy, **{name: draw(fields[name]) for name in sorted(chosen)})


@st.composite
def deployments(draw: st.DrawFn) -> Deployment:
    both = draw(st.lists(groups("both"), max_size=2))
    split = [draw(groups("prefill")), draw(groups("decode"))]
    parts = both + (split if draw(st.booleans()) or not both else [])
    return Deployment(model="m", device="H100", groups=tuple(parts))


@given(deployments())
def test_what_is_written_reads_back_the_same(deployment: Deployment) -> None:
    assert parse_groups(format_deployment(deployment)) == deployment.groups


@pytest.mark.parametrize(
    "text",
    [
        "4B,chunked=512",
        "3P2D",
        "2P,tp2 + 1D,tp4",
        "1B,multiplexed",
        "2P@H100 + 4D@A100",
        "1B,tp2,pp2,chunked=25ms",
        "1B,multiplexed=80:52",
        "1B,prefill-first",
        "2B,chunked=512,reserve",
        "1P,lm=2048 + 1D,batch=64",
    ],
)
def test_the_documented_forms_are_printed_as_they_are_read(text: str) -> None:
    assert format_deployment(parse_deployment(text, model="m", device="H100")) == text


@pytest.mark.parametrize(
    ("short", "long"),
    [
        ("3P2D", "3P + 2D"),
        ("3p2d", "3P+2D"),
        ("3P2D,tp2", "3P,tp2 + 2D,tp2"),
        ("3P2D@A100", "3P@A100 + 2D@A100"),
        ("1B", "1B,chunked=512"),
        ("1B,chunked", "1B,chunked=512"),
        ("1B,tp=2", "1B,tp2"),
        ("2 B , tp2", "2B,tp2"),
        ("1B,policy=mixed", "1B,mixed"),
        ("1B,policy=chunked,budget=64", "1B,chunked=64"),
    ],
)
def test_two_spellings_of_one_deployment(short: str, long: str) -> None:
    assert parse_groups(short) == parse_groups(long)


def test_options_set_the_fields_they_name() -> None:
    text = "1B,multiplexed=slo,tbt=20ms,cap=350W,host=64GB,disk=1TB,no-prefix,order=short-first,ageing=5s,ep"
    (group,) = parse_groups(text)
    expected = Group(
        policy="multiplexed",
        split="slo",
        split_tbt_s=0.02,
        power_cap_w=350,
        host_kv_bytes=64 * 10**9,
        disk_kv_bytes=10**12,
        prefix_cache=False,
        order="short-first",
        ageing_s=5,
        expert_parallel=True,
    )
    assert group == expected


def test_a_table_of_divisions() -> None:
    (group,) = parse_groups("1B,multiplexed,groups=4,divisions=112:20:1/104:28:5")
    assert group.manual_divisions == ((112, 20, 1), (104, 28, 5))
    assert group.sm_group_num == 4


@pytest.mark.parametrize("example", EXAMPLES)
def test_every_option_that_an_error_lists_exists(example: str) -> None:
    parse = {
        "lm=2048": "1P,{}",
        "decode": "1D,{}",
        "budget=512": "1B,policy=mine,{}",
        "policy=NAME": "1B,policy=name",
        "tbt=20ms": "1B,multiplexed=slo,{}",
        "decode-every=4": "1B,prefill-first,{}",
    }
    mux = (
        example.split("=")[0] in ("divisions", "groups", "divisor", "layer-budget", "curve") or "contention" in example
    )
    assert parse_groups(parse.get(example, "1B,multiplexed,{}" if mux else "1B,{}").format(example))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "deployment: '' is not accepted; a term is COUNT and ROLE"),
        ("4X", "deployment: '4X'"),
        ("B", "deployment: 'B'"),
        ("0B", "deployment: '0B'"),
        ("1B + ", "deployment: ''"),
        ("1B,chuncked=512", "'chuncked=512' is not accepted; did you mean chunked"),
        ("1B,whatever", "'whatever' is not accepted; options are tp2"),
        ("1B,tp2,tp4", "term '1B,tp2,tp4': 'tp4' is not accepted; another option"),
        ("1B,mixed,chunked", "another option of the term has set this already"),
        ("1B,tp0", "term '1B,tp0', tp: 0"),
        ("1B,batch=many", "term '1B,batch=many', batch: 'many'"),
        ("1B,chunked=soon", "term '1B,chunked=soon', chunked: 'soon'"),
        ("1P1D,lm=5", "term '1P1D,lm=5', prefill_batch_tokens: 5 is not accepted; only prefill replicas"),
        ("2P", "prefill and decode replicas come together"),
        ("1B,grow=3", "'grow=3'"),
        ("1B@", "deployment: '1B@'"),
    ],
)
def test_a_bad_text_is_refused_in_one_line(text: str, message: str) -> None:
    with pytest.raises(SpecError) as caught:
        parse_deployment(text, model="m", device="H100")
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)


@given(st.text("0123456789BPD@,=+ xtpchunkedms.", max_size=24))
def test_any_text_is_read_or_refused(text: str) -> None:
    try:
        parsed = parse_groups(text)
    except SpecError:
        return
    assert all(group.count >= 1 for group in parsed)


def test_budgets_of_devices() -> None:
    assert parse_budget("8xH100") == {"H100": 8}
    assert parse_budget("8xH100 + 16x A100") == {"H100": 8, "A100": 16}
    assert parse_budget("1xRTX PRO 6000 + 1xRTX PRO 6000") == {"RTX PRO 6000": 2}
    for bad in ("", "H100", "0xH100", "8x", "8xH100 +"):
        with pytest.raises(SpecError, match="COUNTxDEVICE"):
            parse_budget(bad)
