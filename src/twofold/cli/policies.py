"""``--policy-file``: a Python file that registers policies of one's own with ``@twofold.policy``."""

import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.util import module_from_spec, spec_from_file_location
from inspect import signature
from pathlib import Path
from typing import TYPE_CHECKING, cast

from twofold.errors import SpecError

if TYPE_CHECKING:
    from twofold.scheduler.policies import Fill

FLAG = "--policy-file"
ARGUMENTS = 3


@contextmanager
def policies_of(path: Path | None) -> Iterator[None]:
    """Register the policies of a file (None: do nothing) for the block, in which they may be run.

    SpecError when the file is missing or fails, when it registers nothing new, or when a policy cannot be compiled.
    """
    if path is None:
        yield
        return
    register(path)
    from numba.core.errors import NumbaError

    try:
        yield
    except NumbaError as error:
        raise SpecError(FLAG, str(path), f"a policy cannot be compiled: {reason(str(error), path)}") from None


def register(path: Path) -> None:
    """Run the file; SpecError when it is missing or fails, or registers nothing new that can be a policy."""
    from twofold.scheduler.policies import custom_policy, registered_policies
    from twofold.spec.group import POLICIES

    before = registered_policies()
    run_file(path)
    new = registered_policies() - before
    if not new:
        raise SpecError(FLAG, str(path), 'it must register a policy: decorate one with @twofold.policy("NAME")')
    if taken := new & set(POLICIES):
        raise SpecError(FLAG, str(path), f"{min(taken)} is a policy of Twofold; give yours another name")
    for name in sorted(new):
        count = len(signature(cast("Fill", custom_policy(name))).parameters)
        if count != ARGUMENTS:
            raise SpecError(FLAG, str(path), f"{name} takes {count} arguments; a policy takes {ARGUMENTS}: (s, r, k)")


def run_file(path: Path) -> None:
    """Import a file by its path; modules beside it can be imported from it."""
    spec = spec_from_file_location(f"policy_file_{path.stem}", path)
    if not path.is_file():
        raise SpecError(FLAG, str(path), "no such file")
    if spec is None or spec.loader is None:
        raise SpecError(FLAG, str(path), "its name ends in .py")
    module = module_from_spec(spec)
    sys.modules[module.__name__] = module
    sys.path.append(str(path.parent))
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        told = error.msg if isinstance(error, SyntaxError) else error
        raise SpecError(FLAG, str(path), f"it fails{line_of(error, path)}: {type(error).__name__}: {told}") from None


def line_of(error: BaseException, path: Path) -> str:
    """Where in the file an error has come up, such as `` in line 7``; empty when not in the file."""
    if isinstance(error, SyntaxError):
        return f" in line {error.lineno}"
    frames = traceback.extract_tb(error.__traceback__)
    lines = [frame.lineno for frame in frames if frame.filename == str(path.absolute())]
    return f" in line {lines[-1]}" if lines else ""


def reason(report: str, path: Path) -> str:
    """The gist of a compiler's report of many lines: its first statement, and the line of the file."""
    told = [line.strip() for line in report.splitlines() if line.strip() and "nopython mode pipeline" not in line]
    where = [line for line in told if line.startswith("File ") and path.name in line]
    return " ".join([told[0] if told else "no reason given", *(where[-1:])])
