"""Job files for the end-to-end tests: a tiny model that learns sums."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from cluster import Cluster, make_model, sums, write_jsonl

DIMENSIONS = {"hidden_size": 48, "intermediate_size": 96, "layers": 2, "heads": 3, "kv_heads": 1, "seed": 7}


def make_inputs(cluster: Cluster, rows: int = 256, **dimensions: int) -> None:
    """ROOT/base (a random model) and ROOT/sums.jsonl."""
    make_model(cluster.root / "base", **(DIMENSIONS | dimensions))
    write_jsonl(cluster.root / "sums.jsonl", sums(rows))


def sft_job(name: str, **options: Any) -> dict[str, Any]:
    """A supervised warm-up on the sums."""
    return {
        "task": "sft",
        "name": name,
        "model_name_or_path": "base",
        "output_dir": f"runs/{name}",
        "dataset": {"path": "sums.jsonl"},
        "per_device_train_batch_size": 32,
        "max_steps": 40,
        "learning_rate": 3e-3,
        "save_steps": 0,
        "seed": 1,
    } | options


def grpo_job(name: str, **options: Any) -> dict[str, Any]:
    """GRPO on the sums."""
    return {
        "task": "grpo",
        "name": name,
        "model_name_or_path": "base",
        "output_dir": f"runs/{name}",
        "dataset": {"path": "sums.jsonl"},
        "rewards": [{"name": "numeric_match", "answer_column": "answer"}],
        "num_generations": 8,
        "per_device_train_batch_size": 32,
        "max_steps": 3,
        "max_completion_length": 6,
        "learning_rate": 3e-4,
        "save_steps": 1,
        "save_total_limit": 0,
        "seed": 11,
    } | options


def warm_up(cluster: Cluster, **options: Any) -> Path:
    """Runs the warm-up and returns its final checkpoint: a model whose completions differ in length and reward."""
    cluster.wait_job(cluster.submit(sft_job("warm", **options)))
    return cluster.root / "runs/warm/final"
