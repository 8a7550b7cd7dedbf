import asyncio
import sys
from pathlib import Path

import pytest

from twofold.clients.local import is_ready, served
from twofold.errors import SpecError

FAKE = str(Path(__file__).with_name("fake_server.py"))


def test_a_server_lives_as_long_as_its_block() -> None:
    with served("plain", command=(sys.executable, FAKE)) as url:
        assert asyncio.run(is_ready(url))
    assert not asyncio.run(is_ready(url))


def test_a_server_that_ends_at_once_is_told_with_its_last_words() -> None:
    command = (sys.executable, "-c", "import sys; print('starting'); sys.exit('no such model\\n')")
    with pytest.raises(SpecError, match=r"MODEL: 'x' is not accepted;.*no such model"), served("x", command=command):
        pass
    refused = "import sys; sys.exit(\"twofold: dtype: 'fp7' is not accepted; accepted: fp32 or bf16\")"
    with pytest.raises(SpecError) as caught, served("x", command=(sys.executable, "-c", refused)):
        pass
    assert str(caught.value) == "dtype: 'fp7' is not accepted; accepted: fp32 or bf16"
    with pytest.raises(SpecError, match="it said nothing"), served("x", command=(sys.executable, "-c", "")):
        pass
