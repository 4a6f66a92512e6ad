"""A real model on real input: SmolLM2-135M-Instruct trains on GSM8K within 8 GiB and talks as it does under transformers.

TANDEM_SMOLLM2_DIR names the model's directory, TANDEM_GSM8K a JSONL file with `question` and `answer`.
"""

from __future__ import annotations

import json
import os
import threading
import time
import unittest
from pathlib import Path

from cluster import Cluster, mappings, skip

MODEL = os.environ.get("TANDEM_SMOLLM2_DIR", "")
DATA = os.environ.get("TANDEM_GSM8K", "")
if not MODEL or not DATA:
    skip("TANDEM_SMOLLM2_DIR or TANDEM_GSM8K is not set")
try:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer
except ImportError as error:
    skip(f"PyTorch or transformers is missing ({error}): set TANDEM_PYTHON")

GIB = 1 << 30
CHATS = [
    ["What is the capital of France?", "And what is it famous for?"],
    ["Write one line about the sea.", "Now say it in other words, please."],
    ["What is 17 + 25?", "Are you sure? Explain step by step."],
]


def proportional_bytes(cluster: Cluster) -> int:
    """The sum of all processes' proportional memory, and the pool memory that nobody has mapped."""
    total = 0
    for process in cluster.processes.values():
        rollup = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        total += next(int(line.split()[1]) for line in rollup if line.startswith("Pss:")) * 1024
    state = cluster.call("arbiter", "GetState", cluster.messages("arbiter").GetStateRequest(), "GetStateReply")
    mapped = {
        (m["device"], m["inode"])
        for process in cluster.processes.values()
        for m in mappings(process.pid)
        if m["path"].startswith("/memfd:tandem") and m["Rss"] > 0
    }
    return total + state.pool.arena_bytes - min(state.pool.arena_bytes, len(mapped) * state.pool.block_bytes)


class SmolLM2Test(unittest.TestCase):
    """The thin product on a model that people use."""

    def test_three_grpo_steps_on_gsm8k_fit_into_8_gib(self) -> None:
        """The job succeeds; memory is watched all the while."""
        with Cluster(pool_bytes=4 * GIB) as cluster:
            job_id = cluster.submit(
                {
                    "task": "grpo",
                    "name": "gsm8k",
                    "model_name_or_path": MODEL,
                    "output_dir": "runs/gsm8k",
                    "dataset": {
                        "path": DATA,
                        "prompt_column": "question",
                        "system_prompt": "Reason step by step. End with: #### NUMBER",
                        "max_prompt_length": 160,
                    },
                    "rewards": [{"name": "numeric_match", "answer_column": "answer"}],
                    "num_generations": 4,
                    "per_device_train_batch_size": 16,
                    "max_steps": 3,
                    "max_completion_length": 48,
                    "learning_rate": 1e-5,
                    "save_steps": 0,
                    "seed": 3,
                }
            )
            peak, done = [0], threading.Event()

            def watch() -> None:
                while not done.wait(0.5):
                    peak[0] = max(peak[0], proportional_bytes(cluster))

            watcher = threading.Thread(target=watch)
            watcher.start()
            try:
                job = cluster.wait_job(job_id, 900)
            finally:
                done.set()
                watcher.join()
            print(f"peak {peak[0] / GIB:.2f} GiB; {job.summary}")
            self.assertLess(peak[0], 8 * GIB)
            lines = (cluster.root / "runs/gsm8k/metrics.jsonl").read_text().splitlines()
            steps = [line for line in map(json.loads, lines) if line["step"] > 0 and "loss" in line]
            self.assertEqual(len(steps), 3)
            for line in steps:
                self.assertEqual(line["sampling/sampling_logp_difference/max"], 0)
            AutoModelForCausalLM.from_pretrained(str(cluster.root / "runs/gsm8k/final"))

    @staticmethod
    def wait_served(cluster: Cluster) -> None:
        """Waits until inference has loaded its model."""
        request = cluster.messages("inference").GetInferenceStateRequest()
        deadline = time.monotonic() + 60
        while not cluster.call("inference", "GetInferenceState", request, "GetInferenceStateResponse").model:
            if time.monotonic() > deadline:
                raise TimeoutError("no model is served")
            time.sleep(0.05)

    def test_chats_of_two_turns_are_those_of_transformers(self) -> None:
        """Ids of the prompt and 64 greedy tokens, in both turns."""
        tokenizer = AutoTokenizer.from_pretrained(MODEL)
        model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32)
        with Cluster(pool_bytes=2 * GIB, arguments={"inference": [f"--model={MODEL}"]}) as cluster:
            messages = cluster.messages("inference")
            self.wait_served(cluster)
            for questions in CHATS:
                history: list[dict[str, str]] = []
                for question in questions:
                    history.append({"role": "user", "content": question})
                    request = messages.GenerateRequest(
                        messages=messages.Messages(messages=[messages.Message(**m) for m in history]),
                        sampling=messages.SamplingParams(temperature=0, max_tokens=64, ignore_eos=True),
                    )
                    prompt: list[int] = []
                    tokens: list[int] = []
                    for piece in cluster.stream("inference", "Generate", request, "GenerateResponse"):
                        prompt += piece.prompt_token_ids
                        tokens += piece.token_ids
                    text = tokenizer.apply_chat_template(history, add_generation_prompt=True, tokenize=False)
                    ids = tokenizer(text, add_special_tokens=False)["input_ids"]
                    self.assertEqual(prompt, ids)
                    with torch.no_grad():
                        expected = model.generate(
                            torch.tensor([ids]), attention_mask=torch.ones(1, len(ids)), do_sample=False,
                            min_new_tokens=64, max_new_tokens=64, eos_token_id=None, pad_token_id=0,
                        )[0, len(ids) :].tolist()  # fmt: skip
                    self.assertEqual(tokens, expected)
                    end = tokens.index(tokenizer.eos_token_id) if tokenizer.eos_token_id in tokens else len(tokens)
                    history.append({"role": "assistant", "content": tokenizer.decode(tokens[:end])})


if __name__ == "__main__":
    unittest.main()
