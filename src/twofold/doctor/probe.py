"""A check in a process of its own, which is ended when it takes too long: what hangs there hangs nobody else."""

import json
import os
import signal
import subprocess
import sys
from typing import Any

from twofold.errors import SpecError

MODULE = "twofold.doctor.probes"


class ProbeError(Exception):
    """A probe that has failed, died or taken too long, in words."""


def probe(name: str, deadline_s: float, module: str = MODULE) -> dict[str, Any]:
    """What the probe ``name`` of ``module`` prints as one JSON object; ProbeError when it gives none in time."""
    command = [sys.executable, "-m", module, name]
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=os.name == "posix"
    )
    try:
        out, err = process.communicate(timeout=deadline_s)
    except subprocess.TimeoutExpired:
        raise ProbeError(f"no answer within {deadline_s:g} s") from None
    finally:
        _end(process)
    if process.returncode < 0:
        raise ProbeError(f"it died of {signal.Signals(-process.returncode).name}")
    try:
        answer = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        last = err.strip().splitlines()[-1:] or ["it says nothing"]
        raise ProbeError(last[0][:200]) from None
    if not isinstance(answer, dict):
        raise SpecError("probe", out[:40], "accepted: one JSON object")
    return answer


def _end(process: "subprocess.Popen[str]") -> None:
    """End the process and whatever it has started, and wait for it."""
    if process.poll() is None:
        if os.name == "posix":
            os.killpg(process.pid, signal.SIGKILL)
        else:
            process.kill()
        process.communicate()
