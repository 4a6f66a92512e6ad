#!/usr/bin/env python3
"""Makes tests/data/transformer: a tiny untied Llama and what transformers computes with it, in fp32 on the CPU.

Needs torch, transformers 5, safetensors. Usage: make_transformer_reference.py [tests/data/transformer]
The values: logits, log-probabilities, entropies, gradients of the mean cross-entropy of the completions, parameters
after ten AdamW steps (lr 1e-3, weight decay 0.01 on everything, gradient norm clipped to 1), 64 greedy tokens.
"""

import json
import sys
from pathlib import Path

import torch
from safetensors.torch import save_file
from transformers import LlamaConfig, LlamaForCausalLM

LENGTHS = [1, 2, 17, 40]
PROMPT_LENGTHS = [1, 1, 5, 8]
GREEDY_PROMPT_LENGTHS = [1, 19]
GREEDY_TOKENS = 64


def make_model() -> LlamaForCausalLM:
    config = LlamaConfig(
        hidden_size=40, intermediate_size=56, num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
        head_dim=10, vocab_size=83, max_position_embeddings=128, rms_norm_eps=1e-5, tie_word_embeddings=False,
        attn_implementation="eager", bos_token_id=1, eos_token_id=2,
    )  # fmt: skip
    model = LlamaForCausalLM(config).float().eval()
    generator = torch.Generator().manual_seed(7)
    with torch.no_grad():
        for name, p in model.named_parameters():
            noise = torch.randn(p.shape, generator=generator)
            if "norm" in name:
                p.copy_(1 + 0.2 * noise)
            else:
                p.copy_(noise * (1.0 if "embed" in name else 2.0 / p.shape[1] ** 0.5))
    return model


def loss_of(model, sequences):
    total, count = 0.0, 0
    for ids, prompt in zip(sequences, PROMPT_LENGTHS):
        if len(ids) == prompt:
            continue
        logits = model(input_ids=ids[None]).logits[0, prompt - 1 : -1]
        total = total + torch.nn.functional.cross_entropy(logits, ids[prompt:], reduction="sum")
        count += len(ids) - prompt
    return total / count


@torch.no_grad()
def values_of(model, sequences):
    out, packed = {}, {}
    for i, ids in enumerate(sequences):
        logits = model(input_ids=ids[None]).logits[0]
        out[f"logits.{i}"] = logits
        for t in (1.0, 0.7):
            log_p = torch.log_softmax(logits / t, dim=-1)
            chosen = log_p[:-1].gather(1, ids[1:, None])[:, 0]
            packed.setdefault(f"logprob.t{t}", []).append(torch.cat([chosen, chosen.new_zeros(1)]))
            packed.setdefault(f"entropy.t{t}", []).append(-(log_p.exp() * log_p).sum(-1))
    return out | {name: torch.cat(parts) for name, parts in packed.items()}


@torch.no_grad()
def greedy(model, prompt):
    ids, tokens = prompt, []
    for _ in range(GREEDY_TOKENS):
        tokens.append(int(model(input_ids=ids[None]).logits[0, -1].argmax()))
        ids = torch.cat([ids, torch.tensor(tokens[-1:])])
    return {"prompt": prompt.tolist(), "tokens": tokens}


def main() -> None:
    out = Path(sys.argv[1] if len(sys.argv) > 1 else Path(__file__).parent / "transformer")
    torch.set_num_threads(1)
    model = make_model()
    model.save_pretrained(out / "tiny-untied")
    generator = torch.Generator().manual_seed(8)
    draw = lambda n: torch.randint(model.config.vocab_size, (n,), generator=generator)  # noqa: E731
    sequences = [draw(n) for n in LENGTHS]
    tensors = {
        "input_ids": torch.cat(sequences).int(),
        "cu_seqlens": torch.tensor([0, *LENGTHS]).cumsum(0).int(),
        "prompt_lens": torch.tensor(PROMPT_LENGTHS).int(),
    } | values_of(model, sequences)
    answers = [greedy(model, draw(n)) for n in GREEDY_PROMPT_LENGTHS]
    loss_of(model, sequences).backward()
    tensors |= {f"grad.{name}": p.grad.clone() for name, p in model.named_parameters()}
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01)
    norms = []
    for _ in range(10):
        optimizer.zero_grad()
        loss_of(model, sequences).backward()
        norms.append(float(torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)))
        optimizer.step()
    tensors |= {f"adamw10.{name}": p.detach().clone() for name, p in model.named_parameters()}
    save_file({name: t.contiguous() for name, t in tensors.items()}, out / "tiny-untied-reference.safetensors")
    scalars = {"logits_first_position": [0] * len(LENGTHS), "grad_norms": norms, "greedy": answers}
    (out / "tiny-untied-reference.json").write_text(json.dumps(scalars) + "\n")


if __name__ == "__main__":
    main()
