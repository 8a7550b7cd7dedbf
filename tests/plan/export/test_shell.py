import os
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest

from twofold.plan.export.shell import Expanded, command, quoted
from twofold.plan.export.vllm import write

NASTY = '/my models/it\'s $(touch pwned) `x` "y"'
FAKE = '#!/bin/sh\nfor word in "$@"; do printf "%s\\n" "$CUDA_VISIBLE_DEVICES|$word"; done\n'


def test_words_are_quoted_unless_the_shell_expands_them() -> None:
    assert quoted("a b") == "'a b'"
    assert quoted(Expanded("$HOST_1:80")) == '"$HOST_1:80"'
    text = command({"A": "1 2"}, ["run", NASTY], [("--x",), ("--y", "{}", "z")])
    assert shlex.split(text.replace("\\\n", "")) == ["A=1 2", "run", NASTY, "--x", "--y", "{}", "z"]


@pytest.mark.parametrize("text", ["2B,chunked=512", "1P,tp8 + 1D@A100,tp4", "9B,cap=300W"])
def test_scripts_are_shell(order: Any, text: str) -> None:
    for file in write(order(text, NASTY)).files:
        assert file.text.startswith("#!/usr/bin/env bash\n# ")
        subprocess.run(["bash", "-n"], input=file.text, text=True, check=True)


def test_the_command_gets_what_was_meant(order: Any, tmp_path: Path) -> None:
    fake = tmp_path / "vllm"
    fake.write_text(FAKE)
    fake.chmod(0o755)
    script = write(order("1P,tp2 + 1D", NASTY)).files[0].text
    environment = {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run(["bash"], input=script, text=True, capture_output=True, env=environment, cwd=tmp_path)
    words = done.stdout.splitlines()
    assert done.stderr == ""
    for devices in ("0,1", "2"):
        assert f"{devices}|{NASTY}" in words
        assert f"{devices}|127.0.0.1" in words
    assert '2|{"kv_connector":"NixlConnector","kv_role":"kv_consumer"}' in words
    assert [path.name for path in tmp_path.iterdir()] == ["vllm"]


def test_machines_of_a_larger_deployment_are_named_by_the_user(order: Any) -> None:
    exported = write(order("1P,tp8 + 1D@A100,tp4"))
    assert [file.name for file in exported.files] == ["serve-1.sh", "serve-2.sh", "router.sh"]
    for file in exported.files:
        done = subprocess.run(
            ["bash"], input=file.text, text=True, capture_output=True, env={"PATH": os.environ["PATH"]}
        )
        assert done.returncode != 0
        assert "set it to the address of machine" in done.stderr
    assert "which has 4 x A100-80GB" in exported.start[1]


def test_a_device_name_cannot_escape_the_message(order: Any) -> None:
    from twofold.spec import catalog

    odd = catalog.device({"like": "A100", "name": 'x}$(touch pwned)`y`"'})
    text = write(order("1P,tp8 + 8D,cap=200W", device=odd)).files[-1].text
    code = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    assert "$(" not in code
    assert "`" not in code


def test_power_caps_come_before_the_servers(order: Any) -> None:
    text = write(order("2B,tp2,cap=350W")).files[0].text
    assert "nvidia-smi -i 0,1 -pl 350\nnvidia-smi -i 2,3 -pl 350\n" in text
    assert text.index("nvidia-smi") < text.index("vllm serve")
