"""Recomputes the optimizer steps of a GRPO job with PyTorch from what the job left behind, and compares.

    recompute_step.py OUTPUT_DIR MODEL_DIR [--steps 3] [--negate-row R]

For step N: checkpoint-(N-1) (weights, moments; the model itself before step 1) and completions/step-N.jsonl must give
checkpoint-N. The job must have run with save_steps 1 and save_total_limit 0. Nothing of Tandem's code is used: the model
is transformers', the loss is written out below from TRL's definition, AdamW from torch's documentation.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors.torch import load_file
from transformers import AutoModelForCausalLM

MASK = 1e-3  # an element counts as having a gradient from this share of its tensor's rms on


@dataclass
class Outcome:
    """How one step compares."""

    step: int
    masked: float  # |difference of the updates| / |torch's update| over the elements with a clear gradient
    overall: float  # the same over all elements
    share: float  # of the elements with a gradient, those that are clear
    norm: float  # relative difference of the gradient norms

    def passed(self) -> bool:
        """The limits of agreement of two honest fp32 implementations."""
        return self.masked <= 5e-3 and self.overall <= 3e-2 and self.share >= 0.99 and self.norm <= 5e-5


@dataclass
class State:
    """Weights and moments at a step, by checkpoint name."""

    weights: dict[str, torch.Tensor]
    m: dict[str, torch.Tensor] = field(default_factory=dict)
    v: dict[str, torch.Tensor] = field(default_factory=dict)


def load_state(output_dir: Path, model_dir: Path, step: int) -> State:
    """checkpoint-`step`; step 0 is the model itself with fresh moments."""
    folder = output_dir / f"checkpoint-{step}" if step else model_dir
    weights: dict[str, torch.Tensor] = {}
    for file in sorted(folder.glob("*.safetensors")):
        weights |= {name: tensor.float() for name, tensor in load_file(str(file)).items()}
    if "lm_head.weight" in weights and json.loads((folder / "config.json").read_text()).get("tie_word_embeddings"):
        del weights["lm_head.weight"]
    if step == 0:
        return State(weights, *({name: torch.zeros_like(w) for name, w in weights.items()} for _ in "mv"))
    moments = load_file(str(folder / "tandem" / "moments.safetensors"))
    return State(weights, *({name: moments[f"{kind}.{name}"] for name in weights} for kind in "mv"))


def policy_loss(job: dict[str, Any], row: dict[str, Any], logps: torch.Tensor, rows: int, advantage: float) -> torch.Tensor:
    """One row's part of its micro-batch's loss (TRL: GRPOTrainer._compute_loss, loss types dapo and grpo, beta 0)."""
    old = torch.tensor(row["old_logprobs"]) if row["old_logprobs"] else logps.detach()
    ratio = torch.exp(logps - old)
    low, high = job["epsilon"], job["epsilon_high"] if job["epsilon_high"] is not None else job["epsilon"]
    terms = -torch.min(ratio * advantage, ratio.clamp(1 - low, 1 + high) * advantage)
    accumulation = job["gradient_accumulation_steps"]
    if job["loss_type"] == "grpo":
        return terms.sum() / len(terms) / rows / accumulation
    per_generation = job["steps_per_generation"]
    return terms.sum() / (row["num_items_in_batch"] * accumulation / per_generation)


def gradients(model: Any, job: dict[str, Any], rows: list[dict[str, Any]], negate: int | None) -> dict[str, torch.Tensor]:
    """The gradient of the step's loss: the sum over its micro-batches."""
    model.zero_grad()
    size = job["per_device_train_batch_size"]
    for index, row in enumerate(rows):
        prompt, completion = row["prompt_ids"], row["completion_ids"]
        ids = torch.tensor([prompt + completion])
        logits = model(input_ids=ids).logits[0, len(prompt) - 1 : -1] / job["temperature"]
        logps = torch.log_softmax(logits, -1).gather(1, ids[0, len(prompt) :, None])[:, 0]
        advantage = -row["advantage"] if index == negate else row["advantage"]
        policy_loss(job, row, logps, size, advantage).backward()
    return {name: p.grad.detach().clone() for name, p in model.named_parameters()}


def adamw(job: dict[str, Any], state: State, gradient: dict[str, torch.Tensor], step: int, rate: float) -> State:
    """torch.optim.AdamW's update; norms and biases do not decay."""
    beta1, beta2 = job["adam_beta1"], job["adam_beta2"]
    new = State({})
    for name, weight in state.weights.items():
        decay = job["weight_decay"] if weight.dim() > 1 else 0.0
        m = state.m[name].lerp(gradient[name], 1 - beta1)
        v = beta2 * state.v[name] + (1 - beta2) * gradient[name].square()
        denominator = v.sqrt() / (1 - beta2**step) ** 0.5 + job["adam_epsilon"]
        new.weights[name] = weight * (1 - rate * decay) - rate / (1 - beta1**step) * m / denominator
        new.m[name], new.v[name] = m, v
    return new


def rows_of(output_dir: Path, step: int) -> list[dict[str, Any]]:
    """The completions log of a step, in the order in which the step saw its rows."""
    text = (output_dir / "completions" / f"step-{step:06d}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def norm(tensors: dict[str, torch.Tensor]) -> float:
    """The norm of all elements."""
    return float(torch.sqrt(sum(t.double().square().sum() for t in tensors.values())))


def relative(difference: float, size: float) -> float:
    """difference / size; where nothing should have moved (no row has an advantage), nothing may have."""
    return difference / size if size else float("inf") if difference else 0.0


class Recomputation:
    """Steps through a job; remembers which elements have had a clear gradient since the moments were fresh."""

    def __init__(self, output_dir: Path, model_dir: Path) -> None:
        """Reads the job and its metrics."""
        self.output_dir, self.model_dir = output_dir, model_dir
        self.job = yaml.safe_load((output_dir / "job.yaml").read_text())
        lines = (output_dir / "metrics.jsonl").read_text().splitlines()
        self.metrics = {line["step"]: line for line in map(json.loads, lines)}
        self.model = AutoModelForCausalLM.from_pretrained(str(model_dir), dtype=torch.float32).train()
        self.clear: dict[str, torch.Tensor] = {}
        self.touched: dict[str, torch.Tensor] = {}

    def step(self, step: int, negate: int | None = None) -> Outcome:
        """Recomputes one step. Steps must be taken in order, from 1."""
        before = load_state(self.output_dir, self.model_dir, step - 1)
        after = load_state(self.output_dir, self.model_dir, step)
        self.model.load_state_dict(before.weights, strict=False)
        rows = rows_of(self.output_dir, step)
        gradient = gradients(self.model, self.job, rows, negate)
        total = norm(gradient)
        limit = self.job["max_grad_norm"]
        scale = min(1.0, limit / (total + 1e-6)) if limit > 0 else 1.0
        clipped = {name: g * scale for name, g in gradient.items()}
        self._mark(clipped)
        expected = adamw(self.job, before, clipped, step, rows[0]["learning_rate"])
        ours = {name: after.weights[name] - w for name, w in before.weights.items()}
        theirs = {name: expected.weights[name] - w for name, w in before.weights.items()}
        clear = {name: mask.float() for name, mask in self.clear.items()}
        touched = sum(int(mask.sum()) for mask in self.touched.values())
        return Outcome(
            step,
            relative(
                norm({n: (ours[n] - theirs[n]) * clear[n] for n in ours}), norm({n: theirs[n] * clear[n] for n in ours})
            ),
            relative(norm({n: ours[n] - theirs[n] for n in ours}), norm(theirs)),
            sum(int(mask.sum()) for mask in self.clear.values()) / touched if touched else 1.0,
            relative(abs(self.metrics[step]["grad_norm"] - total), total),
        )

    def _mark(self, clipped: dict[str, torch.Tensor]) -> None:
        for name, g in clipped.items():
            rms = g.square().mean().sqrt()
            clear, touched = (g != 0) & (g.abs() >= MASK * rms), g != 0
            self.clear[name] = clear | self.clear.get(name, torch.zeros_like(clear))
            self.touched[name] = touched | self.touched.get(name, torch.zeros_like(touched))


def main() -> None:
    """Prints one line a step; exit status 1 if a step does not agree."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("output_dir", type=Path)
    parser.add_argument("model_dir", type=Path)
    parser.add_argument("--steps", type=int, help="how many steps, from the first (default: all in the log)")
    parser.add_argument("--negate-row", type=int, help="negate this row's advantage: the check must then fail")
    args = parser.parse_args()
    torch.set_num_threads(1)
    recomputation = Recomputation(args.output_dir, args.model_dir)
    failed = False
    for step in range(1, (args.steps or max(recomputation.metrics)) + 1):
        outcome = recomputation.step(step, args.negate_row)
        failed |= not outcome.passed()
        print(
            f"step {step}: update differs by {outcome.masked:.2e} over {outcome.share:.2%} of the elements with a gradient, "
            f"{outcome.overall:.2e} over all; grad_norm by {outcome.norm:.1e}: {'agrees' if outcome.passed() else 'DIFFERS'}"
        )
    sys.exit(1 if failed else 0)


if __name__ == "__main__":
    main()
