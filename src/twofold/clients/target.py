"""Where a server is: the parts of its URL."""

from typing import NamedTuple
from urllib.parse import urlsplit

from twofold.errors import SpecError

ACCEPTED = "an address such as http://127.0.0.1:8000"
PORTS = {"http": 80, "https": 443}


class Target(NamedTuple):
    """A server: whether it speaks TLS, host, port, and the path that comes before ``/v1``."""

    tls: bool
    host: str
    port: int
    base: str

    @classmethod
    def parse(cls, url: str) -> "Target":
        """Read ``http[s]://HOST[:PORT][/PATH][/v1]``; SpecError for anything else."""
        try:
            parts = urlsplit(url)
            host, port = parts.hostname, parts.port
        except ValueError:
            raise SpecError("URL", url, ACCEPTED) from None
        if (
            parts.scheme not in PORTS
            or not host
            or parts.query
            or parts.fragment
            or parts.username
            or not url.isascii()
        ):
            raise SpecError("URL", url, ACCEPTED)
        if any(character.isspace() for character in url):
            raise SpecError("URL", url, ACCEPTED)
        base = parts.path.rstrip("/").removesuffix("/v1")
        return cls(parts.scheme == "https", host, port or PORTS[parts.scheme], base)

    @property
    def authority(self) -> str:
        """What the Host header says."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"


def is_url(text: str) -> bool:
    """Whether ``text`` is meant as a URL rather than as a file or a model."""
    return text.startswith(("http:", "https:"))
