import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file

from twofold.engine.weights import INDEX, opened
from twofold.errors import SpecError

CPU = torch.device("cpu")


def test_tensors_come_in_the_dtype_asked_for(tmp_path: Path) -> None:
    save_file(
        {"a": torch.arange(6.0).half().reshape(2, 3), "lm_head.weight": torch.ones(1)}, tmp_path / "x.safetensors"
    )
    with opened(tmp_path, torch.bfloat16, CPU) as weights:
        found = weights.take("a", 2, 3)
        assert found.dtype == torch.bfloat16
        assert found.tolist() == [[0, 1, 2], [3, 4, 5]]
        assert weights.maybe("b", 1) is None
        weights.all_taken()


def test_what_does_not_fit_is_named(tmp_path: Path) -> None:
    save_file({"a": torch.ones(2), "b": torch.ones(3)}, tmp_path / "x.safetensors")
    with opened(tmp_path, torch.float32, CPU) as weights:
        for name, shape in (("c", (1,)), ("a", (3,)), ("a", (2, 1))):
            with pytest.raises(SpecError, match=f"tensor {name}"):
                weights.take(name, *shape)
        weights.take("a", 2)
        with pytest.raises(SpecError, match="tensor b"):
            weights.all_taken()


def test_an_index_chooses_the_files(tmp_path: Path) -> None:
    for name in ("old", "new"):
        save_file({"a": torch.full((1,), float(len(name)) + (name == "old"))}, tmp_path / f"{name}.safetensors")
    (tmp_path / INDEX).write_text(json.dumps({"weight_map": {"a": "old.safetensors"}}))
    with opened(tmp_path, torch.float32, CPU) as weights:
        assert weights.take("a", 1).item() == 4.0
    (tmp_path / "old.safetensors").unlink()
    with pytest.raises(SpecError, match="weights"), opened(tmp_path, torch.float32, CPU):
        pass
