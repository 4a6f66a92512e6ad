"""The log of a step suffices to recompute it: PyTorch gets checkpoint-N from checkpoint-(N-1) and completions/step-N.jsonl."""

from __future__ import annotations

import unittest

from cluster import Cluster, digit_sums, skip, write_jsonl
from jobs import grpo_job, make_inputs, warm_up

try:
    import torch

    from recompute_step import Recomputation, rows_of
except ImportError as error:
    skip(f"PyTorch, transformers or PyYAML is missing ({error}): set TANDEM_PYTHON")

VARIANTS = {
    "plain": {},
    "accumulation": {"gradient_accumulation_steps": 4, "per_device_train_batch_size": 16},
    "steps-per-generation": {"steps_per_generation": 8, "per_device_train_batch_size": 16, "max_steps": 6},
    "iterations": {"num_iterations": 2, "max_steps": 4},
    "temperature": {"temperature": 0.7},
    "grpo-loss": {
        "loss_type": "grpo", "steps_per_generation": 2, "num_iterations": 2, "epsilon": 0.01, "max_steps": 4,
        "per_device_train_batch_size": 128,
    },
    "decay": {"weight_decay": 0.1, "warmup_steps": 2, "max_grad_norm": 0.01},
}


class StepLogTest(unittest.TestCase):
    """Every variant at two learning rates."""

    def test_every_step_can_be_recomputed(self) -> None:
        """All steps of all variants agree; with one row's advantage negated they do not."""
        torch.set_num_threads(1)
        with Cluster() as cluster:
            make_inputs(cluster)
            write_jsonl(cluster.root / "sums.jsonl", digit_sums())
            model = warm_up(cluster, max_steps=25)
            for name, options in VARIANTS.items():
                for rate in (1e-6, 3e-4):
                    job = f"{name}-{rate}"
                    cluster.wait_job(
                        cluster.submit(grpo_job(job, model_name_or_path=str(model), learning_rate=rate, **options))
                    )
                    with self.subTest(job):
                        self.check(cluster.root / "runs" / job, model)

    def check(self, output_dir, model) -> None:
        """Recomputes the job in `output_dir`."""
        recomputation = Recomputation(output_dir, model)
        for step in sorted(recomputation.metrics):
            if step == 0:
                continue
            outcome = recomputation.step(step)
            print(output_dir.name, outcome)
            self.assertTrue(outcome.passed(), outcome)
        rows = rows_of(output_dir, 1)
        self.assertGreater(len({len(row["completion_ids"]) for row in rows}), 1, "completions should be ragged")
        negate = next(i for i, row in enumerate(rows) if row["advantage"] != 0)
        self.assertFalse(Recomputation(output_dir, model).step(1, negate).passed())


if __name__ == "__main__":
    unittest.main()
