"""One copy of the weights: shared by the trainer and inference, published without a byte moved, read-only to the reader."""

from __future__ import annotations

import subprocess
import threading
import unittest
from pathlib import Path

from cluster import Cluster, bin_dir
from jobs import grpo_job, make_inputs
from memory_audit import audit

# 107 million parameters: 430 MB of weights.
LARGE = {"hidden_size": 768, "intermediate_size": 3072, "layers": 12, "heads": 12, "kv_heads": 6, "seed": 5}
STEPS = 5


def received_bytes(trace: Path) -> int:
    """Bytes that the traced calls returned: everything that came in over sockets, pipes and files."""
    total = 0
    for line in trace.read_text(errors="replace").splitlines():
        result = line.rpartition(" = ")[2].split(" ")[0]
        total += max(0, int(result)) if result.lstrip("-").isdigit() else 0
    return total


class OneCopyTest(unittest.TestCase):
    """One job on a model of 420 MB, looked at while it runs."""

    def test_weights_exist_once(self) -> None:
        """Same blocks in both processes, nothing else as large, and no bytes received for a new version."""
        with Cluster(pool_bytes=3 << 30) as cluster:
            make_inputs(cluster, rows=32, **LARGE)
            job_id = cluster.submit(
                grpo_job("large", per_device_train_batch_size=8, max_steps=STEPS + 12, save_steps=0, max_completion_length=4)
            )
            cluster.wait_step(job_id, 1)
            inference = cluster.processes["inference"].pid
            trace = cluster.root / "trace"
            calls = "trace=read,pread64,readv,preadv,recvmsg,recvfrom"
            tracer = subprocess.Popen(["strace", "-qq", "-f", "-e", calls, "-o", str(trace), "-p", str(inference)])
            before = self.read_bytes(inference)
            cluster.wait_step(job_id, 1 + STEPS)
            after = self.read_bytes(inference)
            tracer.terminate()
            tracer.wait(10)
            state = cluster.call("arbiter", "GetState", cluster.messages("arbiter").GetStateRequest(), "GetStateReply")
            served = next(s for s in state.sets if s.tenant == "trainer")
            w = next(s.size_bytes for s in state.segments if s.id == served.shared_segment_id)
            self.assertGreaterEqual(w, 400e6)
            self.assertLess(after - before, 0.02 * w)
            self.assertLess(received_bytes(trace), 0.02 * w)
            self.assertGreater(received_bytes(trace), 0)

            reader = audit(cluster, inference, "inference", served.name)
            writer = audit(cluster, cluster.processes["trainer"].pid, "trainer", served.name)
            self.assertLess(cluster.job(job_id).state, 4, "the job should still run while its memory is looked at")
            cluster.wait_job(job_id)
            print(f"W {w / 1e6:.0f} MB, received {received_bytes(trace)} bytes in {STEPS} steps; {reader.weights_resident=} ")
            print(f"outside the listed segments: inference {reader.others / w:.3f} W, trainer {writer.others / w:.3f} W")
            self.assertEqual(reader.weights, writer.weights)
            for process in (reader, writer):
                self.assertGreaterEqual(process.weights_resident, 0.98 * w)
                self.assertLessEqual(process.others, 0.15 * w)
            names = {s.name for s in state.segments if s.tenant == "trainer" and s.id != served.shared_segment_id}
            self.assertLessEqual(names, {"moments", "gradients", "activations"})
            self.check_audit_finds_a_copy(cluster, served.name, w)

    @staticmethod
    def read_bytes(pid: int) -> int:
        """What the process has read through read-like system calls."""
        fields = dict(line.split(": ") for line in Path(f"/proc/{pid}/io").read_text().splitlines())
        return int(fields["rchar"])

    def check_audit_finds_a_copy(self, cluster: Cluster, set_name: str, w: int) -> None:
        """A reader that only maps passes the audit; one that makes a private copy does not."""
        for mode in ("map", "copy"):
            command = [str(bin_dir() / "reader_tenant"), str(cluster.run_dir), mode]
            with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
                timer = threading.Timer(60, process.kill)
                timer.start()
                self.assertTrue(process.stdout.readline().startswith(b"ready"))
                found = audit(cluster, process.pid, "reader", set_name)
                process.stdin.close()
                process.wait()
                timer.cancel()
            if mode == "map":
                self.assertLessEqual(found.others, 0.15 * w)
            else:
                self.assertGreater(found.others, 0.95 * w)


if __name__ == "__main__":
    unittest.main()
