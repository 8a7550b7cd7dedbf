from typing import Any

from twofold.plan.export.base import flat, header


def test_the_header_is_comments_whatever_the_names_are(order: Any) -> None:
    model = {"like": "llama-3-8b", "name": "mine\nrm -rf x"}
    from twofold.spec import catalog

    head = header(order("1B", model=catalog.model(model)), "Thing 1", ["this\nand that"])
    assert all(line.startswith("# ") for line in head.splitlines())
    assert "Thing 1" in head
    assert "- this and that" in head


def test_a_rank_that_is_not_proved_is_said(order: Any) -> None:
    proved, doubted = (header(order("1B", proved=each), "Thing 1", []) for each in (True, False))
    assert "rank 1 of its plan:" in proved
    assert "rank 1 of its plan, which the plan did not prove:" in doubted


def test_prefixes_are_reused_as_the_group_says_or_the_workload_had_hashes(order: Any) -> None:
    plain, hashed = order("1B"), order("1B", workload={"hash_tokens": 16})
    told = order("1B,no-prefix", workload={"hash_tokens": 16})
    assert [each.prefix_cache(each.groups[0]) for each in (plain, hashed, told)] == [False, True, False]


def test_devices_replicas_and_sides(order: Any) -> None:
    mixed = order("2P@A100 + 3D")
    assert [mixed.device(group).name for group in mixed.groups] == ["A100-80GB", "H100"]
    assert (mixed.replicas, mixed.disaggregated, order("2B").disaggregated) == (5, True, False)


def test_flags_become_words() -> None:
    assert flat([("--a",), ("--b", "1", "2")]) == ["--a", "--b", "1", "2"]
