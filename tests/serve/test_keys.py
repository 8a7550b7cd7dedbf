"""API keys: read from file and environment, and needed where they should be."""

import pytest

from twofold.errors import SpecError
from twofold.serve.errors import ApiError
from twofold.serve.keys import check_key, read_keys


def test_keys_of_file_and_environment(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# ours\nalpha\n\n beta \nalpha\n")
    assert read_keys(path, {"TWOFOLD_API_KEYS": "gamma, beta,"}) == ("gamma", "beta", "alpha")
    assert read_keys(None, {}) == ()


def test_an_empty_file_does_not_open_the_server(tmp_path):
    path = tmp_path / "keys"
    path.write_text("# nothing\n")
    with pytest.raises(SpecError, match="one key a line"):
        read_keys(path, {"TWOFOLD_API_KEYS": "x"})


@pytest.mark.parametrize("given", [None, "", "alpha", "Basic alpha", "Bearer", "Bearer ", "Bearer alph", "Bearer ä"])
def test_wrong_keys(given):
    with pytest.raises(ApiError) as refusal:
        check_key(["alpha", "beta"], given)
    assert refusal.value.status == 401


def test_right_keys():
    check_key(["alpha", "beta"], "Bearer beta")
    check_key(["alpha"], "bearer alpha")
    check_key([], None)


def test_only_what_must_be_open_is_open(serving):
    with serving(keys=["secret"]) as server:
        for path in ("/health", "/live", "/version", "/metrics", "/openapi.json"):
            assert server.http.get(path).status_code == 200, path
        for path in ("/v1/models", "/nope"):
            assert server.http.get(path).status_code == 401, path
        refusal = server.complete("x")
        assert refusal.status_code == 401
        assert refusal.headers["www-authenticate"] == "Bearer"
        assert refusal.json()["error"]["code"] == "invalid_api_key"
        assert server.post("/v1/completions", {"prompt": "x"}, Authorization="Bearer secret").status_code == 200
