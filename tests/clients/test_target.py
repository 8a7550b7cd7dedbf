import pytest

from twofold.clients.target import Target, is_url
from twofold.errors import SpecError


@pytest.mark.parametrize(
    ("url", "target", "authority"),
    [
        ("http://127.0.0.1:8000", Target(False, "127.0.0.1", 8000, ""), "127.0.0.1:8000"),
        ("http://host", Target(False, "host", 80, ""), "host:80"),
        ("https://host/v1/", Target(True, "host", 443, ""), "host:443"),
        ("https://host:8443/models/a/v1", Target(True, "host", 8443, "/models/a"), "host:8443"),
        ("http://[::1]:9/", Target(False, "::1", 9, ""), "[::1]:9"),
    ],
)
def test_parts(url: str, target: Target, authority: str) -> None:
    assert Target.parse(url) == target
    assert target.authority == authority


@pytest.mark.parametrize(
    "url",
    [
        *("", "localhost:8000", "ftp://host", "http://", "http://host:port", "http://host:99999", "http://["),
        *("http://a b/", "http://host?x=1", "http://host#x", "http://me@host", "http://hôst", "http://host\r\nX: y"),
    ],
)
def test_anything_else_is_refused(url: str) -> None:
    with pytest.raises(SpecError, match=r"http://127\.0\.0\.1:8000"):
        Target.parse(url)


def test_files_and_models_are_no_urls() -> None:
    assert [is_url(text) for text in ("http:x", "https://h", "sample", "trace.csv", "httpd.csv")] == [
        *(True, True),
        *(False, False, False),
    ]
