"""What runs a model on a CUDA device, in words; torch is not needed to say so."""

from importlib.util import find_spec

UNVERIFIED = "none of it has been run on a device: compare its answers with those of --device cpu"


def has_flashinfer() -> bool:
    """Whether the package that FlashInfer comes in is there."""
    return find_spec("flashinfer") is not None


def on_cuda(dtype: str, policy: str) -> str:
    """One line on the parts that a server of this dtype (fp32, bf16) and policy uses there."""
    if has_flashinfer() and dtype == "bf16":
        parts = ["attention by FlashInfer", "decode steps as CUDA graphs"]
    else:
        why = "FlashInfer computes bf16 only" if has_flashinfer() else 'FlashInfer: pip install "twofold[flashinfer]"'
        parts = [f"attention by torch over gathered blocks ({why})"]
    if policy == "multiplexed":
        parts.append("lanes on green contexts")
    return f"{', '.join(parts)}; {UNVERIFIED}"
