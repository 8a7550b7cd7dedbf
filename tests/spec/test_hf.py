import json
from pathlib import Path
from typing import Any

import pytest

from twofold.errors import SpecError
from twofold.spec import catalog
from twofold.spec.hf import model_from_config
from twofold.spec.model import Model


def config(kind: str, layers: int, hidden: int, heads: int, vocab: int, **more: Any) -> dict[str, Any]:
    shape = {"num_hidden_layers": layers, "hidden_size": hidden, "num_attention_heads": heads}
    return {"model_type": kind, "vocab_size": vocab, "torch_dtype": "bfloat16", **shape, **more}


LLAMA = config(
    "llama",
    32,
    4096,
    32,
    128256,
    num_key_value_heads=8,
    intermediate_size=14336,
    max_position_embeddings=8192,
)
MLA = {"kv_lora_rank": 512, "qk_nope_head_dim": 128, "qk_rope_head_dim": 64, "v_head_dim": 128}

# Shapes and parameter counts as published with each checkpoint.
PUBLISHED: dict[str, tuple[dict[str, Any], int]] = {
    "Llama-3-8B": (LLAMA, 8_030_261_248),
    "Mistral-7B": (
        config("mistral", 32, 4096, 32, 32000, num_key_value_heads=8, intermediate_size=14336),
        7_241_732_096,
    ),
    "Qwen2.5-7B": (
        config("qwen2", 28, 3584, 28, 152064, num_key_value_heads=4, intermediate_size=18944),
        7_615_616_512,
    ),
    "Qwen3-8B": (
        config("qwen3", 36, 4096, 32, 151936, num_key_value_heads=8, head_dim=128, intermediate_size=12288),
        8_190_735_360,
    ),
    "Qwen3-30B-A3B": (
        config("qwen3_moe", 48, 2048, 32, 151936, num_key_value_heads=4, head_dim=128, intermediate_size=6144)
        | {"num_experts": 128, "num_experts_per_tok": 8, "moe_intermediate_size": 768},
        30_532_122_624,
    ),
    "Mixtral-8x7B": (
        config("mixtral", 32, 4096, 32, 32000, num_key_value_heads=8, intermediate_size=14336)
        | {"num_local_experts": 8, "num_experts_per_tok": 2},
        46_702_792_704,
    ),
    "gpt-oss-20b": (
        config("gpt_oss", 24, 2880, 64, 201088, num_key_value_heads=8, head_dim=64, intermediate_size=2880)
        | {"num_local_experts": 32, "num_experts_per_tok": 4, "sliding_window": 128},
        20_914_757_184,
    ),
    "DeepSeek-V2-Lite": (
        config("deepseek_v2", 27, 2048, 16, 102400, intermediate_size=10944, **MLA)
        | {"n_routed_experts": 64, "num_experts_per_tok": 6, "n_shared_experts": 2}
        | {"moe_intermediate_size": 1408, "first_k_dense_replace": 1, "q_lora_rank": None},
        15_706_484_224,
    ),
    "Gemma-2B": (
        config("gemma", 18, 2048, 8, 256000, num_key_value_heads=1, head_dim=256, intermediate_size=16384),
        2_506_172_416,
    ),
    "Gemma-2-2B": (
        config("gemma2", 26, 2304, 8, 256000, num_key_value_heads=4, head_dim=256, intermediate_size=9216)
        | {"sliding_window": 4096},
        2_614_341_888,
    ),
    "Gemma-3-1B": (
        config("gemma3_text", 26, 1152, 4, 262144, num_key_value_heads=1, head_dim=256, intermediate_size=6912)
        | {"sliding_window": 512},
        999_885_952,
    ),
    "OPT-125M": (
        config("opt", 12, 768, 12, 50272, ffn_dim=3072, max_position_embeddings=2048, word_embed_proj_dim=768),
        125_239_296,
    ),
    "BLOOM-560M": (
        {"model_type": "bloom", "n_layer": 24, "n_embed": 1024, "n_head": 16, "vocab_size": 250880},
        559_214_592,
    ),
    "Falcon-7B": (config("falcon", 32, 4544, 71, 65024, multi_query=True, parallel_attn=True), 7_217_189_760),
    "Falcon-180B": (
        config("falcon", 80, 14848, 232, 65024, new_decoder_architecture=True, num_kv_heads=8),
        179_522_565_120,
    ),
}


@pytest.mark.parametrize("name", PUBLISHED)
def test_parameters_of_known_model_types(name: str) -> None:
    given, published = PUBLISHED[name]
    assert model_from_config(given, name).total_params == published


def test_config_gives_the_model_of_the_catalog() -> None:
    deepseek = config("deepseek_v3", 61, 7168, 128, 129280, intermediate_size=18432, q_lora_rank=1536, **MLA)
    deepseek |= {"num_key_value_heads": 128, "n_routed_experts": 256, "num_experts_per_tok": 8}
    deepseek |= {"n_shared_experts": 1, "moe_intermediate_size": 2048, "first_k_dense_replace": 3}
    deepseek |= {"max_position_embeddings": 163840, "quantization_config": {"quant_method": "fp8"}}
    for name, given in (("llama-3-8b", LLAMA), ("deepseek-v3", deepseek)):
        known = catalog.model(name)
        assert model_from_config(given, known.name).replaced(source=known.source) == known


def test_folder_file_and_content_are_the_same_model(tmp_path: Path) -> None:
    folder = tmp_path / "my-llama"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(LLAMA))
    by_folder = catalog.model(str(folder))
    assert by_folder.name == "my-llama"
    assert by_folder == catalog.model(folder / "config.json")
    assert by_folder == catalog.model(LLAMA).replaced(name="my-llama")


def test_text_part_of_a_multimodal_config_is_read() -> None:
    nested = {"model_type": "llava", "text_config": LLAMA}
    assert model_from_config(nested).total_params == PUBLISHED["Llama-3-8B"][1]


def test_unknown_model_type_is_read_as_llama_and_says_so() -> None:
    model = model_from_config({**LLAMA, "model_type": "newcomer"})
    assert model.total_params == PUBLISHED["Llama-3-8B"][1]
    assert "newcomer, read as a llama-like one" in model.source


def test_sliding_windows() -> None:
    mistral, _ = PUBLISHED["Mistral-7B"]
    assert model_from_config({**mistral, "sliding_window": 4096}).sliding_layers == 32
    assert model_from_config({**mistral, "sliding_window": None}).sliding_layers == 0
    listed = {**LLAMA, "layer_types": ["sliding_attention", "full_attention"] * 16, "sliding_window": 128}
    assert model_from_config(listed).sliding_layers == 16
    assert [model_from_config(PUBLISHED[name][0]).sliding_layers for name in ("Gemma-2-2B", "Gemma-3-1B")] == [
        13,
        22,
    ]
    qwen, _ = PUBLISHED["Qwen2.5-7B"]
    used = {**qwen, "use_sliding_window": True, "sliding_window": 4096, "max_window_layers": 20}
    assert model_from_config(used).sliding_layers == 8


@pytest.mark.parametrize(
    ("quantization", "weight", "expert"),
    [
        ({"quant_method": "fp8"}, "fp8", None),
        ({"quant_method": "gptq", "bits": 4}, "int4", None),
        ({"quant_method": "awq", "bits": 8}, "int8", None),
        ({"quant_method": "bitsandbytes", "load_in_4bit": True}, "int4", None),
        ({"quant_method": "bitsandbytes", "load_in_8bit": True}, "int8", None),
        ({"quant_method": "modelopt", "quant_algo": "NVFP4"}, "fp4", None),
        ({"quant_method": "mxfp4"}, "bf16", "mxfp4"),
        (
            {
                "quant_method": "compressed-tensors",
                "config_groups": {"group_0": {"weights": {"num_bits": 8, "type": "float"}}},
            },
            "fp8",
            None,
        ),
    ],
)
def test_quantization(quantization: dict[str, Any], weight: str, expert: str | None) -> None:
    model = model_from_config({**LLAMA, "quantization_config": quantization})
    assert (model.weight_dtype, model.expert_dtype, model.kv_dtype) == (weight, expert, "bf16")


def test_torch_dtypes() -> None:
    def dtypes(name: str) -> tuple[str, str]:
        model: Model = model_from_config({**LLAMA, "torch_dtype": name})
        return model.weight_dtype, model.kv_dtype

    assert dtypes("float16") == ("fp16", "fp16")
    assert dtypes("torch.float32") == ("fp32", "fp32")


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"hidden_size": None}, "hidden_size"),
        ({"num_attention_heads": 0}, "num_attention_heads"),
        ({"num_hidden_layers": "many"}, "layers"),
        ({"vocab_size": None}, "vocab_size"),
        ({"torch_dtype": "float64"}, "torch_dtype"),
        ({"quantization_config": {"quant_method": "hqq"}}, "quantization_config"),
        ({"model_type": "newcomer", "num_experts": 8}, "model_type"),
        ({"model_type": "qwen3_moe", "decoder_sparse_step": 2}, "decoder_sparse_step"),
        ({"model_type": "deepseek_v3", "moe_layer_freq": 2}, "moe_layer_freq"),
        ({"model_type": "opt", "word_embed_proj_dim": 512}, "word_embed_proj_dim"),
    ],
)
def test_what_cannot_be_read_is_named(changes: dict[str, Any], named: str) -> None:
    with pytest.raises(SpecError, match=named):
        model_from_config({**LLAMA, **changes})


@pytest.mark.parametrize("text", ["{", "[]"])
def test_bad_file_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(SpecError, match=r"config\.json"):
        model_from_config(tmp_path)


def test_folder_without_config(tmp_path: Path) -> None:
    with pytest.raises(SpecError, match=r"a folder with a config\.json"):
        catalog.model(tmp_path)
