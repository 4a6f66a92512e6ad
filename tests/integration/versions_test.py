"""Every version that the trainer commits is the one that inference answers from, as transformers computes it."""

from __future__ import annotations

import threading
import time
import unittest
from pathlib import Path

import grpc

from cluster import Cluster, skip
from jobs import grpo_job, make_inputs, warm_up

try:
    import torch
    from transformers import AutoModelForCausalLM
except ImportError as error:
    skip(f"PyTorch or transformers is missing ({error}): set TANDEM_PYTHON")

STEPS = 5
PROMPT = [ord(c) % 200 for c in "12+34=46 and 50+11=61"]


class VersionsTest(unittest.TestCase):
    """A client asks for prompt_logprobs while a job trains."""

    def test_each_version_is_seen_and_is_the_checkpoint_of_its_step(self) -> None:
        """Answers equal transformers' on the checkpoint of their version, and no two versions agree."""
        with Cluster() as cluster:
            make_inputs(cluster)
            model = warm_up(cluster)
            answers: dict[int, list[float]] = {}
            stop = threading.Event()
            asking = threading.Thread(target=self.ask, args=(cluster, answers, stop))
            job_id = cluster.submit(grpo_job("versions", model_name_or_path=str(model), max_steps=STEPS))
            asking.start()
            versions: dict[int, int] = {}
            request = cluster.messages("trainer").WatchJobRequest(job_id=job_id)
            for event in cluster.stream("trainer", "WatchJob", request, "JobEvent"):
                if event.WhichOneof("event") == "step":
                    versions[event.step.step] = event.step.version
            cluster.wait_job(job_id)
            time.sleep(0.5)
            stop.set()
            asking.join(30)
            self.assertEqual(sorted(versions), list(range(1, STEPS + 1)))
            last: list[float] | None = None
            for step, version in sorted(versions.items()):
                self.assertIn(version, answers, f"version {version} of step {step} was never answered")
                expected = self.reference(cluster.root / f"runs/versions/checkpoint-{step}")
                difference = max(abs(a - b) for a, b in zip(answers[version], expected, strict=True))
                self.assertLess(difference, 2e-4)
                if last is not None:
                    self.assertGreater(max(abs(a - b) for a, b in zip(answers[version], last, strict=True)), 2e-4)
                last = answers[version]

    @staticmethod
    def ask(cluster: Cluster, answers: dict[int, list[float]], stop: threading.Event) -> None:
        """Keeps the answer of every version."""
        messages = cluster.messages("inference")
        request = messages.GenerateRequest(
            token_ids=messages.TokenIds(ids=PROMPT), prompt_logprobs=True, sampling=messages.SamplingParams(max_tokens=1)
        )
        while not stop.is_set():
            try:
                first = next(iter(cluster.stream("inference", "Generate", request, "GenerateResponse", timeout=30)))
                answers[first.prompt_version] = list(first.prompt_logprobs)[1:]
            except (grpc.RpcError, StopIteration):
                time.sleep(0.01)

    @staticmethod
    def reference(folder: Path) -> list[float]:
        """transformers' log-probabilities of the prompt's tokens, from the second on."""
        model = AutoModelForCausalLM.from_pretrained(str(folder), dtype=torch.float32)
        ids = torch.tensor([PROMPT])
        with torch.no_grad():
            logps = torch.log_softmax(model(input_ids=ids).logits[0, :-1], -1)
        return logps.gather(1, ids[0, 1:, None])[:, 0].tolist()


if __name__ == "__main__":
    unittest.main()
