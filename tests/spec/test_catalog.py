import time
from pathlib import Path

import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.device import Device
from twofold.spec.hf import READERS
from twofold.spec.link import Link
from twofold.spec.model import Model


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(catalog.VARIABLE, raising=False)
    monkeypatch.setattr(catalog, "_open", {})


REQUIRED_MODELS = """
    OPT-13B OPT-66B OPT-175B Llama-2-7B Llama-2-70B Llama-3-8B Llama-3-70B Llama-3.1-405B
    Qwen2.5-0.5B Qwen2.5-1.5B Qwen2.5-3B Qwen2.5-7B Qwen2.5-14B Qwen2.5-32B Qwen2.5-72B
    Qwen3-0.6B Qwen3-1.7B Qwen3-4B Qwen3-8B Qwen3-14B Qwen3-32B Qwen3-30B-A3B Qwen3-235B-A22B
    Mistral-7B Yi-34B Falcon-180B BLOOM-176B DeepSeek-V3 gpt-oss-20b gpt-oss-120b SmolLM2-135M
"""
REQUIRED_DEVICES = """
    A100-40GB A100-80GB H100 H200 H800 H20 B200 GB200 L40S L4 A10G RTX-4090 RTX-PRO-6000 MI300X this-cpu
"""


def test_catalog_has_what_it_promises() -> None:
    assert set(REQUIRED_MODELS.split()) <= {model.name for model in catalog.models()}
    assert set(REQUIRED_DEVICES.split()) <= {device.name for device in catalog.devices()}
    assert all(entry.source for entry in [*catalog.models(), *catalog.devices(), *catalog.links()])


def test_order_is_that_of_the_file_and_stable() -> None:
    names = [model.name for model in catalog.models()]
    assert names.index("OPT-13B") < names.index("Llama-3-8B") < names.index("SmolLM2-135M")
    assert names == [model.name for model in catalog.models()]
    assert catalog.devices()[-1].name == "this-cpu"


@pytest.mark.parametrize(
    ("written", "name"),
    [
        ("llama-3-8b", "Llama-3-8B"),
        ("meta-llama/Meta-Llama-3-8B", "Llama-3-8B"),
        ("Meta-Llama-3-8B-Instruct", "Llama-3-8B"),
        ("llama3-8b", "Llama-3-8B"),
        ("Llama 3.1 8B", "Llama-3.1-8B"),
        ("meta-llama/Llama-2-7b-chat-hf", "Llama-2-7B"),
        ("Qwen/Qwen3-8B", "Qwen3-8B"),
        ("mistralai/Mistral-7B-v0.1", "Mistral-7B"),
        ("bigscience/bloom", "BLOOM-176B"),
        ("openai/gpt-oss-20b", "gpt-oss-20b"),
        ("facebook/opt-66b", "OPT-66B"),
        ("smollm2", "SmolLM2-135M"),
    ],
)
def test_models_by_their_usual_names(written: str, name: str) -> None:
    assert catalog.model(written).name == name


@pytest.mark.parametrize(
    ("written", "name"),
    [("A100", "A100-80GB"), ("a100-80gb", "A100-80GB"), ("h100_sxm", "H100"), ("rtx 4090", "RTX-4090")],
)
def test_devices_by_their_usual_names(written: str, name: str) -> None:
    assert catalog.device(written).name == name


def test_links_by_their_usual_names() -> None:
    assert catalog.link("infiniband").name == "IB-NDR"
    assert catalog.link("nvlink").name == "NVLink4"


def test_no_two_entries_share_a_name() -> None:
    for kind, record in catalog.RECORDS.items():
        entries = catalog._parse(catalog.FOLDER / f"{kind}.yaml")
        written = [name for name, fields in entries.items() for name in (name, *fields.get("aliases", []))]
        keys = {catalog._key(name, record) for name in written}
        repeated = [name for name in written if written.count(name) > 1]
        assert repeated == []
        assert len(keys) >= len(entries)


@pytest.mark.parametrize(
    ("find", "written", "close"),
    [
        (catalog.model, "llama-3-8x", "Llama-3-8B"),
        (catalog.device, "H10", "H100"),
        (catalog.link, "NDRR", "IB-NDR"),
    ],
)
def test_unknown_name_offers_close_ones(find: object, written: str, close: str) -> None:
    with pytest.raises(SpecError, match=f"did you mean .*{close}") as caught:
        find(written)  # type: ignore[operator]
    assert written in str(caught.value)
    assert "\n" not in str(caught.value)


def test_records_pass_through() -> None:
    model, device, link = catalog.model("opt-13b"), catalog.device("H100"), catalog.link("25GbE")
    assert catalog.model(model) is model
    assert catalog.device(device) is device
    assert catalog.link(link) is link


def test_inline_fields_may_start_from_an_entry() -> None:
    cheap = catalog.device({"like": "H100", "name": "cheap", "price_per_hour": 1.5, "memory": "94GB"})
    assert (cheap.name, cheap.memory, cheap.price_source) == ("cheap", 94 * 10**9, "given by the user")
    assert cheap.bandwidth == catalog.device("H100").bandwidth
    fp8 = catalog.model({"like": "llama-3-8b", "weight_dtype": "fp8"})
    assert fp8.weight_bytes * 2 == catalog.model("llama-3-8b").weight_bytes
    assert catalog.device({"like": "this-cpu", "bandwidth": "40GB/s"}).bandwidth == 40e9


def test_inline_mistake_is_named() -> None:
    with pytest.raises(SpecError, match=r"device\.prize"):
        catalog.device({"like": "H100", "prize": 1})


USER = """
models:
  Tiny: {layers: 2, hidden: 8, heads: 2, kv_heads: 1, head_dim: 4, ffn: 16, vocab: 32, aliases: [tt]}
devices:
  h100: {like: H100, price_per_hour: 2.0}
links:
  Twin: {like: 100GbE, bandwidth: 200Gb/s}
"""


@pytest.fixture
def user_file(tmp_path: Path) -> Path:
    path = tmp_path / "mine.yaml"
    path.write_text(USER)
    return path


def check_user_entries() -> None:
    assert catalog.model("TT") == catalog.model("tiny")
    assert catalog.model("tiny").source == "given by the user"
    assert catalog.device("H100-SXM").price_per_hour == 2.0
    assert [device.name.lower() for device in catalog.devices()].count("h100") == 1
    assert catalog.link("twin").bandwidth == 25e9
    assert catalog.link("twin").latency_s == catalog.link("100GbE").latency_s


def test_user_file_adds_and_replaces(user_file: Path) -> None:
    before = catalog.device("H100").price_per_hour
    catalog.load(user_file)
    assert before != 2.0
    check_user_entries()


def test_environment_names_user_files(user_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(catalog.VARIABLE, str(user_file))
    check_user_entries()


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("models: [", "YAML"),
        ("- 1", "mappings"),
        ("modles: {}", "modles"),
        ("devices: 3", "devices"),
        ("devices: {mine: 3}", r"devices\.mine"),
        ("devices: {mine: {like: H100, memori: 3}}", r"devices\.mine\.memori"),
        ("links: {mine: {like: nowhere}}", "nowhere"),
    ],
)
def test_bad_user_file_is_named(tmp_path: Path, text: str, named: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(text)
    with pytest.raises(SpecError, match=named) as caught:
        catalog.load(path)
    assert "\n" not in str(caught.value)


def test_missing_user_file() -> None:
    with pytest.raises(SpecError, match="No such file"):
        catalog.load("nowhere.yaml")


def test_a_lookup_is_fast() -> None:
    times = []
    for _ in range(5):
        catalog._open.clear()
        start = time.process_time()
        catalog.model("llama-3-8b")
        times.append(time.process_time() - start)
    assert min(times) < 0.030


def test_types() -> None:
    assert all(isinstance(entry, Model) for entry in catalog.models())
    assert all(isinstance(entry, Device) for entry in catalog.devices())
    assert all(isinstance(entry, Link) for entry in catalog.links())


def documentation() -> str:
    return (Path(__file__).parents[2] / "docs" / "catalogs.md").read_text()


def test_example_of_the_documentation_loads(tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(documentation().partition("```yaml\n")[2].partition("```")[0])
    catalog.load(path)
    assert catalog.device("my-accelerator").flops("fp8") == 800e12
    assert catalog.model("llama-3-8b-fp8").weight_dtype == "fp8"
    assert catalog.link("200gbe").bandwidth == 25e9


def test_documentation_lists_the_known_model_types() -> None:
    listed = " ".join(documentation().split()).partition("Known model types: ")[2].partition(".")[0]
    assert set(listed.split(", ")) == set(READERS)
