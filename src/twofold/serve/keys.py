"""API keys: where they come from and how a request's key is checked."""

import hmac
import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from twofold.errors import SpecError
from twofold.serve.errors import AUTHENTICATION, ApiError

VARIABLE = "TWOFOLD_API_KEYS"
CHALLENGE = {"WWW-Authenticate": "Bearer"}


def read_keys(path: Path | None, environment: Mapping[str, str] = os.environ) -> tuple[str, ...]:
    """The keys of a file (one a line, ``#`` starts a comment line) and of the environment (between commas).

    SpecError when a file holds none, so that a server that should be closed is not open; OSError when unreadable.
    """
    found = [key.strip() for key in environment.get(VARIABLE, "").split(",")]
    if path is not None:
        lines = [line.strip() for line in path.read_text().splitlines()]
        written = [line for line in lines if line and not line.startswith("#")]
        if not written:
            raise SpecError("--api-key-file", str(path), "a file with one key a line")
        found += written
    return tuple(dict.fromkeys(key for key in found if key))


def check_key(keys: Sequence[str], authorization: str | None) -> None:
    """Raise a 401 unless ``authorization`` is ``Bearer KEY`` with one of ``keys``; in constant time for each key."""
    if not keys:
        return
    scheme, _, given = (authorization or "").partition(" ")
    offered = given.strip().encode()
    matches = [hmac.compare_digest(key.encode(), offered) for key in keys]
    if scheme.lower() != "bearer" or not any(matches):
        message = "a valid API key is needed: send the header Authorization: Bearer KEY"
        raise ApiError(401, message, kind=AUTHENTICATION, code="invalid_api_key", headers=CHALLENGE)
