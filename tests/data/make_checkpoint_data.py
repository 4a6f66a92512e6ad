#!/usr/bin/env python3
"""Makes tests/data/checkpoint: tiny Llama checkpoints in every storage that Tandem reads, and what torch reads from them.

    python make_checkpoint_data.py tests/data/checkpoint      # needs torch, safetensors, numpy

Per checkpoint: config.json in one dialect, weights, and expected.json with the sum and a position-dependent sum of every
tensor in float64 (a tensor that was misplaced or transposed has another position-dependent sum).
"""

import json
import shutil
import sys
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

HIDDEN, INTER, LAYERS, HEADS, KV_HEADS, HEAD_DIM, VOCAB = 24, 40, 2, 3, 1, 10, 37
DTYPES = {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}
# name: (dtype, tied, shards, dialect of transformers)
MODELS = {
    "untied": ("float32", False, 1, 5),
    "three-shards": ("float32", False, 3, 4),
    "bf16": ("bfloat16", True, 1, 4),
    "fp16": ("float16", True, 1, 5),
}


def weights(tied: bool, generator: torch.Generator) -> dict[str, torch.Tensor]:
    def normal(*shape: int) -> torch.Tensor:
        return torch.randn(*shape, generator=generator)

    tensors = {"model.embed_tokens.weight": normal(VOCAB, HIDDEN)}
    for i in range(LAYERS):
        layer = f"model.layers.{i}."
        tensors[layer + "input_layernorm.weight"] = normal(HIDDEN)
        tensors[layer + "self_attn.q_proj.weight"] = normal(HEADS * HEAD_DIM, HIDDEN)
        tensors[layer + "self_attn.k_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        tensors[layer + "self_attn.v_proj.weight"] = normal(KV_HEADS * HEAD_DIM, HIDDEN)
        tensors[layer + "self_attn.o_proj.weight"] = normal(HIDDEN, HEADS * HEAD_DIM)
        tensors[layer + "post_attention_layernorm.weight"] = normal(HIDDEN)
        tensors[layer + "mlp.gate_proj.weight"] = normal(INTER, HIDDEN)
        tensors[layer + "mlp.up_proj.weight"] = normal(INTER, HIDDEN)
        tensors[layer + "mlp.down_proj.weight"] = normal(HIDDEN, INTER)
    tensors["model.norm.weight"] = normal(HIDDEN)
    # Values at the edges of the 16-bit formats: zeros of both signs, subnormal numbers, the largest ones.
    tensors["model.norm.weight"][:8] = torch.tensor([0.0, -0.0, 6e-8, -6e-8, 3e-5, 65504.0, -65504.0, 1e-7])
    if not tied:
        tensors["lm_head.weight"] = normal(VOCAB, HIDDEN)
    return tensors


def config(dtype: str, tied: bool, dialect: int) -> dict:
    result = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_act": "silu", "hidden_size": HIDDEN,
        "intermediate_size": INTER, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
        "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "vocab_size": VOCAB, "max_position_embeddings": 64,
        "rms_norm_eps": 1e-05, "tie_word_embeddings": tied, "bos_token_id": 1, "eos_token_id": 2,
        "initializer_range": 0.02, "attention_bias": False, "mlp_bias": False,
    }  # fmt: skip
    if dialect == 4:
        return result | {"torch_dtype": dtype, "rope_theta": 50000.0, "rope_scaling": None}
    return result | {"dtype": dtype, "rope_parameters": {"rope_type": "default", "rope_theta": 50000.0}}


def write_json(path: Path, value: object) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def save(tensors: dict[str, torch.Tensor], out: Path, shards: int) -> None:
    if shards == 1:
        save_file(tensors, str(out / "model.safetensors"), metadata={"format": "pt"})
        return
    names = sorted(tensors)
    where = {n: f"model-{i * shards // len(names) + 1:05d}-of-{shards:05d}.safetensors" for i, n in enumerate(names)}
    for file in sorted(set(where.values())):
        save_file({n: tensors[n] for n in names if where[n] == file}, str(out / file), metadata={"format": "pt"})
    total = sum(t.numel() * t.element_size() for t in tensors.values())
    write_json(out / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": where})


def expected(out: Path) -> dict[str, dict]:
    """Read back from the files, upcast to fp32, summed in float64."""
    result = {}
    for file in sorted(out.glob("*.safetensors")):
        for name, tensor in load_file(str(file)).items():
            flat = tensor.float().double().flatten()
            factor = (torch.arange(flat.numel()) * 7 % 11).double()
            result[name] = {"shape": list(tensor.shape), "sum": flat.sum().item(),
                            "position_sum": (flat * factor).sum().item()}  # fmt: skip
    return result


def main() -> None:
    root = Path(sys.argv[1])
    for seed, (name, (dtype, tied, shards, dialect)) in enumerate(MODELS.items()):
        out = root / name
        shutil.rmtree(out, ignore_errors=True)
        out.mkdir(parents=True)
        generator = torch.Generator().manual_seed(seed)
        save({k: v.to(DTYPES[dtype]) for k, v in weights(tied, generator).items()}, out, shards)
        write_json(out / "config.json", config(dtype, tied, dialect))
        write_json(out / "generation_config.json", {"bos_token_id": 1, "eos_token_id": [2, 5], "pad_token_id": 3})
        write_json(out / "expected.json", expected(out))


if __name__ == "__main__":
    main()
