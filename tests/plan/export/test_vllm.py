import shlex
from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.plan.export.vllm import WRITTEN_FOR, write


def words(text: str) -> list[str]:
    return shlex.split(text.replace("\\\n", " "), comments=True)


def test_one_replica_needs_no_router(order: Any) -> None:
    exported = write(order("1B"))
    assert [file.name for file in exported.files] == ["serve.sh"]
    assert exported.start == ("bash serve.sh",)
    assert WRITTEN_FOR in exported.files[0].text


@pytest.mark.parametrize("text", ["3B,chunked=512", "2P,tp2 + 1D", "1P + 1P@A100 + 2D"])
def test_options_of_servers_and_router_are_published(order: Any, published: Any, options_of: Any, text: str) -> None:
    *servers, router = write(order(text)).files
    assert set(options_of(words(router.text))) <= published("vllm_router")
    for server in servers:
        assert set(options_of(words(server.text))) <= published("vllm")


def test_the_router_knows_every_replica_by_its_side(order: Any) -> None:
    serve, router = write(order("2P,tp2 + 1D")).files
    given = words(router.text)
    found = [(word, given[place + 1]) for place, word in enumerate(given) if word in ("--prefill", "--decode")]
    assert found == [
        ("--prefill", "http://$HOST_1:8100"),
        ("--prefill", "http://$HOST_1:8102"),
        ("--decode", "http://$HOST_1:8104"),
    ]
    ports = [words(serve.text)[place + 1] for place, word in enumerate(words(serve.text)) if word == "--port"]
    assert ports == ["8100", "8102", "8104"]
    sides = [word for word in words(serve.text) if word.startswith("VLLM_NIXL_SIDE_CHANNEL_PORT=")]
    assert len(set(sides)) == 3


def test_colocated_replicas_are_balanced(order: Any) -> None:
    given = words(write(order("2B", router="random")).files[-1].text)
    assert given[given.index("--policy") + 1] == "random"
    place = given.index("--worker-urls")
    assert given[place + 1 :] == ["http://$HOST_1:8100", "http://$HOST_1:8101"]


def test_what_it_cannot_do_is_refused(order: Any) -> None:
    with pytest.raises(SpecError, match="another target"):
        write(order("1B,multiplexed"))
