"""A job survives kill -9 of the trainer, of inference and of the arbiter: the final weights are those of a quiet run."""

from __future__ import annotations

import json
import signal
import time
import unittest
from pathlib import Path
from typing import Callable

from cluster import Cluster, make_model
from jobs import grpo_job, make_inputs, warm_up

STEPS = 9
SAVE_STEPS = 3


def weights(folder: Path) -> bytes:
    """The bytes of a checkpoint's weights."""
    return b"".join(file.read_bytes() for file in sorted(folder.glob("*.safetensors")))


class ResumeTest(unittest.TestCase):
    """Kills in every phase."""

    @classmethod
    def setUpClass(cls) -> None:
        """One cluster, one warm-up and one undisturbed run for all tests."""
        cls.cluster = cls.enterClassContext(Cluster())
        make_inputs(cls.cluster)
        cls.model = warm_up(cls.cluster)
        cls.quiet = cls.run_job("quiet", lambda _: None)

    @classmethod
    def run_job(cls, name: str, disturb: Callable[[int], None], **options: object) -> Path:
        """Runs the job while `disturb` does its worst; returns the output directory."""
        usual = {"model_name_or_path": str(cls.model), "max_steps": STEPS, "save_steps": SAVE_STEPS}
        job_id = cls.cluster.submit(grpo_job(name, **(usual | options)))
        disturb(job_id)
        cls.job = cls.cluster.wait_job(job_id)
        return cls.cluster.root / "runs" / name

    def wait_phase(self, job_id: int, step: int, phase: str) -> None:
        """Waits until the job is in `phase` of the step after `step`, by its live progress."""
        messages = self.cluster.messages("trainer")
        request = messages.WatchJobRequest(job_id=job_id)
        for event in self.cluster.stream("trainer", "WatchJob", request, "JobEvent"):
            if event.WhichOneof("event") == "progress" and event.progress.step >= step and event.progress.phase == phase:
                return

    def stop_in_write_window(self, job_id: int) -> None:
        """Stops the trainer's process (SIGSTOP) inside a write window: a set is still being written while nothing runs."""
        messages = self.cluster.messages("arbiter")
        get_state = self.cluster.channel("arbiter").unary_unary(
            "/tandem.v1.Arbiter/GetState", messages.GetStateRequest.SerializeToString, messages.GetStateReply.FromString
        )
        writing = messages.SetState.Value("SET_STATE_WRITING")

        def in_window() -> bool:
            return any(s.state == writing for s in get_state(messages.GetStateRequest(), timeout=10).sets)

        deadline = time.monotonic() + 60
        while time.monotonic() < deadline:
            if in_window():
                self.cluster.kill("trainer", signal.SIGSTOP)
                time.sleep(0.02)  # what the process had sent before it stopped has arrived
                if in_window():
                    return
                self.cluster.kill("trainer", signal.SIGCONT)
            elif self.cluster.job(job_id).state >= 4:
                break
        self.fail("the job ended, or a minute passed, before the trainer could be stopped in a write window")

    def restart(self, name: str) -> None:
        """kill -9 and a new process."""
        self.cluster.kill(name)
        self.cluster.start(name)

    def check_same(self, output_dir: Path, kills: int, executed: bool = True) -> None:
        """The weights are those of the quiet run, the metrics have each step once."""
        self.assertEqual(weights(output_dir / "final"), weights(self.quiet / "final"))
        steps = [json.loads(line)["step"] for line in (output_dir / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([s for s in steps if s > 0], list(range(1, STEPS + 1)))
        if executed:
            self.assertGreater(self.job.resumed_from_step, 0)
            self.assertLessEqual(self.job.summary.optimizer_steps, STEPS + SAVE_STEPS * kills)

    def test_trainer_killed_in_generation(self) -> None:
        """Killed while inference generates for it."""

        def disturb(job_id: int) -> None:
            self.wait_phase(job_id, 4, "generation")
            self.restart("trainer")

        self.check_same(self.run_job("killed-generation", disturb), kills=1)

    def test_trainer_killed_in_training(self) -> None:
        """Killed in forward, backward or the optimizer."""

        def disturb(job_id: int) -> None:
            self.wait_phase(job_id, 4, "train")
            self.restart("trainer")

        self.check_same(self.run_job("killed-train", disturb), kills=1)

    def test_trainer_killed_at_many_moments(self) -> None:
        """Killed again and again at moments that nobody chose."""

        def disturb(job_id: int) -> None:
            for i in range(4):
                self.cluster.wait_step(job_id, 3 + i)
                time.sleep(0.013 * (i + 1))
                if self.cluster.job(job_id).state >= 4:
                    return
                self.restart("trainer")

        self.check_same(self.run_job("killed-often", disturb), kills=4)

    def test_trainer_killed_in_the_middle_of_a_generation_batch(self) -> None:
        """A batch that is used for several steps comes back as it was."""
        options = {"steps_per_generation": 2, "num_iterations": 2, "save_steps": 1}
        quiet = self.run_job("quiet-iterations", lambda _: None, **options)

        def disturb(job_id: int) -> None:
            self.cluster.wait_step(job_id, 2)
            self.restart("trainer")

        again = self.run_job("killed-iterations", disturb, **options)
        self.assertGreater(self.job.resumed_from_step, 0)
        self.assertEqual(weights(again / "final"), weights(quiet / "final"))

    def test_trainer_killed_between_begin_write_and_commit(self) -> None:
        """The write window is torn, nobody reads it, and the job goes on from its checkpoint."""
        make_model(self.cluster.root / "wide", hidden_size=256, intermediate_size=1024, layers=8, heads=8, kv_heads=2, seed=3)
        options = {"model_name_or_path": "wide", "max_steps": 8, "save_steps": 2, "per_device_train_batch_size": 8}
        quiet_id = self.cluster.submit(grpo_job("quiet-wide", **options))
        self.cluster.wait_job(quiet_id)
        job_id = self.cluster.submit(grpo_job("killed-write", **options))
        self.cluster.wait_step(job_id, 2)
        self.stop_in_write_window(job_id)
        self.restart("trainer")
        job = self.cluster.wait_job(job_id)
        self.assertIn(job.resumed_from_step, (2, 4, 6))
        runs = self.cluster.root / "runs"
        self.assertEqual(weights(runs / "killed-write/final"), weights(runs / "quiet-wide/final"))

    def test_inference_killed_in_a_rollout(self) -> None:
        """The trainer waits for the new inference process and gets the same completions."""

        def disturb(job_id: int) -> None:
            self.wait_phase(job_id, 4, "generation")
            self.restart("inference")

        self.check_same(self.run_job("inference-killed", disturb), kills=0, executed=False)

    def test_arbiter_killed(self) -> None:
        """A new, empty pool: the services attach again and the trainer loads its last checkpoint."""

        def disturb(job_id: int) -> None:
            self.cluster.wait_step(job_id, 4)
            self.restart("arbiter")

        self.check_same(self.run_job("arbiter-killed", disturb), kills=1)


if __name__ == "__main__":
    unittest.main()
