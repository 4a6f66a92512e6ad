#!/usr/bin/env python3
"""Writes tests/data/grpo: reference values of TRL's GRPO without KL, computed by TRL's own GRPOTrainer.

A tiny random Llama (`grpo/model`) and, for each case, CASE.json (inputs, log-probabilities, advantages, losses,
metrics) and CASE.safetensors (the gradient of every parameter). Rollouts are drawn here and enter TRL through
`rollout_func`; its scoring runs with noisy weights (the old policy), its loss with the model's own. Needs torch,
transformers, trl 1.16, tokenizers, safetensors:

    python make_grpo_reference.py --out grpo
"""

import argparse
import contextlib
import json
import os
import pathlib
import tempfile
import warnings

os.environ.update({"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"})
warnings.filterwarnings("ignore")

import torch
from datasets import Dataset
from safetensors.torch import save_file
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from transformers import LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import split_tensor_dict

VOCAB, END, PAD = 40, 2, 3
GROUPS, SIZE, LONGEST = 4, 3, 9
NOISE = 0.06  # relative, on every weight: how far the old policy is from the model

CASES = {}
for loss in ("dapo", "grpo"):
    old = {"loss_type": loss, "num_iterations": 2, "epsilon_high": 0.28}
    CASES |= {
        f"{loss}-on-policy": {"loss_type": loss},
        f"{loss}-old": old,
        f"{loss}-accumulation": old | {"micro": SIZE, "gradient_accumulation_steps": GROUPS},
        f"{loss}-steps-per-generation": old | {"micro": SIZE, "steps_per_generation": GROUPS},
        f"{loss}-temperature": old | {"temperature": 0.7},
        f"{loss}-masked-truncated": old | {"mask_truncated_completions": True, "micro": 2 * SIZE,
                                           "gradient_accumulation_steps": 2},
    }
CASES |= {
    "grpo-epsilon-default": {"loss_type": "grpo", "num_iterations": 2},
    "grpo-scale-batch": {"loss_type": "grpo", "num_iterations": 2, "scale_rewards": "batch"},
    "grpo-scale-none": {"loss_type": "grpo", "num_iterations": 2, "scale_rewards": "none"},
    "dapo-missing-rewards": {"loss_type": "dapo", "reward_weights": [0.5, 2.0], "missing": True},
}


def make_model(seed):
    torch.manual_seed(seed)
    config = LlamaConfig(
        vocab_size=VOCAB, hidden_size=16, intermediate_size=24, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=8, max_position_embeddings=64, tie_word_embeddings=True, bos_token_id=1,
        eos_token_id=END, pad_token_id=PAD, attn_implementation="eager",
    )  # fmt: skip
    model = LlamaForCausalLM(config).float()
    with torch.no_grad():
        for name, p in model.named_parameters():
            p.copy_(1 + 0.1 * torch.randn_like(p) if "norm" in name else 0.3 * torch.randn_like(p))
    return model


def make_tokenizer():
    words = Tokenizer(WordLevel({f"w{i}": i for i in range(VOCAB)}, unk_token="w0"))
    return PreTrainedTokenizerFast(tokenizer_object=words, eos_token=f"w{END}", pad_token=f"w{PAD}", unk_token="w0")


def make_rollout(seed):
    """Ragged completions, some of them cut. Group 1 has equal rewards (exact in binary: TRL averages in fp32)."""
    rng = torch.Generator().manual_seed(seed)
    draw = lambda low, high, n: torch.randint(low, high, (n,), generator=rng).tolist()
    rollout = {"prompt_ids": [], "completion_ids": [], "rewards": []}
    for group in range(GROUPS):
        # The pad token too, as a token like others: transformers gives its embedding no gradient.
        prompt = draw(5, VOCAB, draw(1, 7, 1)[0]) + [PAD] * (group % 2)
        for row in range(SIZE):
            body = draw(PAD, VOCAB, draw(0, LONGEST, 1)[0])
            cut = (group + row) % 3 == 0 and body
            rollout["prompt_ids"].append(prompt)
            rollout["completion_ids"].append(body if cut else [*body, END])
            rollout["rewards"].append([0.25, 0.75] if group == 1 else [float(draw(0, 2, 1)[0]), draw(-8, 9, 1)[0] / 8])
    return rollout


@contextlib.contextmanager
def old_policy(model, seed):
    kept = [p.detach().clone() for p in model.parameters()]
    rng = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(1 + NOISE * torch.randn(p.shape, generator=rng))
        yield
        for p, value in zip(model.parameters(), kept):
            p.copy_(value)


def run_case(name, options, seed):
    options = dict(options)
    rows = GROUPS * SIZE
    rollout = make_rollout(seed + 1)
    if options.pop("missing", False):
        rollout["rewards"][2][0] = None
        rollout["rewards"][7] = [None, None]
    options["per_device_train_batch_size"] = options.pop("micro", rows)
    model, tokenizer = make_model(seed), make_tokenizer()
    args = GRPOConfig(
        output_dir=tempfile.gettempdir(), use_cpu=True, bf16=False, gradient_checkpointing=False, report_to=[],
        disable_tqdm=True, save_strategy="no", num_generations=SIZE, max_completion_length=LONGEST, **options,
    )  # fmt: skip
    trainer = GRPOTrainer(
        model=model,
        reward_funcs=[lambda i=i, **_: [r[i] for r in rollout["rewards"]] for i in range(2)],
        args=args,
        train_dataset=Dataset.from_dict({"prompt": ["w5"] * rows * 4}),
        processing_class=tokenizer,
        rollout_func=lambda prompts, _: {
            "prompt_ids": rollout["prompt_ids"], "completion_ids": rollout["completion_ids"], "logprobs": None,
        },
    )  # fmt: skip
    trainer.reward_func_names = ["reward_0", "reward_1"]
    trainer.eos_token_ids = [END]
    trainer.model.train()
    trainer.current_gradient_accumulation_steps = args.gradient_accumulation_steps
    with old_policy(model, seed + 2):
        inputs = trainer._generate_and_score_completions([{"prompt": "w5"}] * rows)
    with torch.no_grad():
        logps, entropies, _ = trainer._get_per_token_logps_and_entropies(
            model,
            torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1),
            torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1),
            inputs["completion_ids"].size(1),
            compute_entropy=True,
        )
    losses = []
    for micro in split_tensor_dict(inputs, rows // options["per_device_train_batch_size"]):
        loss = trainer._compute_loss(model, micro)
        loss.backward()
        losses.append(loss.item())
    ragged = lambda t: None if t is None else [r[: len(c)].tolist() for r, c in zip(t, rollout["completion_ids"])]
    grads = {f"grad.{n}": p.grad.clone() for n, p in model.named_parameters()}
    values = {
        "case": name,
        "config": options | {"num_generations": SIZE, "max_completion_length": LONGEST},
        "eos_token_ids": [END],
        "pad_token_id": PAD,
        **rollout,
        "completion_kept": [int(row[0]) for row in inputs["completion_mask"]],
        "advantages": inputs["advantages"].tolist(),
        "num_items_in_batch": int(inputs["num_items_in_batch"]),
        "old_logps": ragged(inputs.get("old_per_token_logps")),
        "logps": ragged(logps),
        "entropies": ragged(entropies),
        "micro_batch_losses": losses,
        "loss": sum(losses),
        "grad_norm": torch.stack([g.norm() for g in grads.values()]).norm().item(),
        "metrics": {k: v for k, v in trainer._metrics["train"].items() if "num_tokens" not in k},
    }
    return values, grads


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path, default=pathlib.Path(__file__).parent / "grpo")
    parser.add_argument("--seed", type=int, default=7)
    args = parser.parse_args()
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    args.out.mkdir(parents=True, exist_ok=True)
    make_model(args.seed).save_pretrained(args.out / "model")
    for name, options in CASES.items():
        values, grads = run_case(name, options, args.seed)
        text = json.dumps(values, default=float, separators=(",", ":"))
        rounded = json.loads(text, parse_float=lambda s: float(f"{float(s):.9g}"))
        (args.out / f"{name}.json").write_text(json.dumps(rounded, separators=(",", ":")) + "\n")
        save_file({k: v.contiguous() for k, v in grads.items()}, str(args.out / f"{name}.safetensors"))
        print(f"{name}: loss {values['loss']:.6f}, gradient norm {values['grad_norm']:.4f}")


if __name__ == "__main__":
    main()
