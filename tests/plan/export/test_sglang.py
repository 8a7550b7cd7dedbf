import shlex
import subprocess
from typing import Any

import pytest
import yaml

from twofold.plan.export.sglang import write


def words(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", " ").replace('"$(dirname -- "$0")/', '"'), comments=True)


@pytest.mark.parametrize("text", ["1B", "3B,chunked=512", "2P,tp2 + 1D", "2B,multiplexed", "9B,multiplexed=80:52"])
def test_scripts_are_shell_with_published_options(order: Any, published: Any, options_of: Any, text: str) -> None:
    for file in write(order(text, "/my models/it's")).files:
        if file.name.endswith(".sh"):
            subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)
            known = published("sglang_router" if file.name == "router.sh" else "sglang")
            assert set(options_of(words(file.text))) <= known


def test_the_router_knows_the_bootstrap_port_of_each_prefill_replica(order: Any) -> None:
    serve, router = write(order("2P,tp2 + 1D")).files
    given = words(router.text)
    pairs = [given[place + 1 : place + 3] for place, word in enumerate(given) if word == "--prefill"]
    assert pairs == [["http://$HOST_1:8100", "8998"], ["http://$HOST_1:8102", "9000"]]
    started = words(serve.text)
    ports = [started[place + 1] for place, word in enumerate(started) if word == "--disaggregation-bootstrap-port"]
    assert ports == ["8998", "9000"]
    modes = [started[place + 1] for place, word in enumerate(started) if word == "--disaggregation-mode"]
    assert modes == ["prefill", "prefill", "decode"]


def test_a_multiplexed_group_has_its_file(order: Any) -> None:
    files = {file.name: file.text for file in write(order("2B,multiplexed=80:52")).files}
    assert yaml.safe_load(files["pdmux.yaml"])["manual_divisions"] == [[80, 52, 1]]
    assert '--pdmux-config-path "$(dirname -- "$0")/pdmux.yaml"' in files["serve.sh"]


def test_two_multiplexed_groups_have_two(order: Any) -> None:
    files = {file.name: file.text for file in write(order("1B,multiplexed=80:52 + 1B,multiplexed")).files}
    assert yaml.safe_load(files["pdmux-1.yaml"]) != yaml.safe_load(files["pdmux-2.yaml"])
    assert "/pdmux-1.yaml" in files["serve.sh"]
    assert "/pdmux-2.yaml" in files["serve.sh"]
