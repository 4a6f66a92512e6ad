"""Starts the real daemons in a directory of their own and speaks their protocol, for the Python end-to-end tests.

Needs grpcio and protobuf (Debian: python3-grpcio, python3-protobuf) and protoc. Tests that compare with PyTorch also need
torch and transformers and skip without them: run them with an interpreter that has both (TANDEM_PYTHON).
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Iterator

SKIP = 77  # exit status that CTest counts as skipped
REPOSITORY = Path(__file__).resolve().parents[2]
DAEMONS = ("arbiter", "inference", "trainer")


def skip(reason: str) -> None:
    """Ends the process as a skipped test."""
    print(f"skipped: {reason}")
    sys.exit(SKIP)


try:
    import grpc
except ImportError:
    skip("the Python package grpcio is missing (Debian: python3-grpcio)")


def bin_dir() -> Path:
    """Where the binaries are."""
    return Path(os.environ.get("TANDEM_BIN", REPOSITORY / "build/release/bin"))


def load_protocol() -> dict[str, Any]:
    """Compiles proto/tandem/v1 with protoc and imports the modules: {"arbiter": module, ...}."""
    out = tempfile.mkdtemp(prefix="tandem-proto-")
    protos = [str(p) for p in (REPOSITORY / "proto/tandem/v1").glob("*.proto")]
    subprocess.run(["protoc", f"-I{REPOSITORY / 'proto'}", f"--python_out={out}", *protos], check=True)
    sys.path.insert(0, out)
    return {name: importlib.import_module(f"tandem.v1.{name}_pb2") for name in DAEMONS}


class Cluster:
    """The three daemons of one run directory. Use as a context manager; whatever still runs at the end is killed."""

    def __init__(self, pool_bytes: int = 1 << 30, arguments: dict[str, list[str]] | None = None) -> None:
        """Makes the directory; `arguments` adds command line arguments by daemon."""
        self.temporary = tempfile.TemporaryDirectory(prefix="tandem-cluster-")
        self.root = Path(self.temporary.name)
        self.run_dir = self.root / "run"
        self.run_dir.mkdir()
        self.protocol = load_protocol()
        self.processes: dict[str, subprocess.Popen[bytes]] = {}
        self.arguments = {name: [] for name in DAEMONS} | (arguments or {})
        self.arguments["arbiter"] = [f"--pool_bytes={pool_bytes}", *self.arguments["arbiter"]]

    def __enter__(self) -> Cluster:
        """Starts all daemons."""
        for name in DAEMONS:
            self.start(name)
        return self

    def __exit__(self, *exception: object) -> None:
        """Stops all daemons; shows their logs if the test failed."""
        for process in reversed(list(self.processes.values())):
            process.terminate()
        for process in self.processes.values():
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        if exception[0] is not None:
            for name in DAEMONS:
                print(f"---- last lines of {name}'s log", *self.log(name).splitlines()[-12:], sep="\n")
        self.temporary.cleanup()

    def log(self, name: str) -> str:
        """What a daemon has written so far."""
        return (self.root / f"{name}.log").read_text(errors="replace")

    def start(self, name: str, wait: bool = True) -> None:
        """Starts a daemon and waits until it serves."""
        command = [str(bin_dir() / f"tandem-{name}"), f"--run_dir={self.run_dir}", "--metrics_address=off"]
        if name == "trainer":
            command.append(f"--state_dir={self.root / 'state'}")
        with (self.root / f"{name}.log").open("ab") as log:
            self.processes[name] = subprocess.Popen([*command, *self.arguments[name]], stderr=log, stdout=log)
        if wait:
            self.wait_serving(name)

    def kill(self, name: str, sig: signal.Signals = signal.SIGKILL) -> None:
        """Sends a signal and, if it ends the process, waits for the end."""
        self.processes[name].send_signal(sig)
        if sig in (signal.SIGKILL, signal.SIGTERM):
            self.processes[name].wait(30)

    def wait_serving(self, name: str, seconds: float = 60) -> None:
        """Waits until the health service answers SERVING."""
        deadline = time.monotonic() + seconds
        while True:
            try:
                reply = self.channel(name).unary_unary("/grpc.health.v1.Health/Check")(b"", timeout=2)
                if reply == b"\x08\x01":
                    return
            except grpc.RpcError:
                pass
            if self.processes[name].poll() is not None:
                raise RuntimeError(f"tandem-{name} ended with {self.processes[name].returncode}: {self.log(name)[-2000:]}")
            if time.monotonic() > deadline:
                raise TimeoutError(f"tandem-{name} does not serve after {seconds} s: {self.log(name)[-2000:]}")
            time.sleep(0.02)

    def channel(self, name: str) -> grpc.Channel:
        """A new channel to a daemon."""
        options = [("grpc.max_receive_message_length", 1 << 28), ("grpc.use_local_subchannel_pool", 1)]
        return grpc.insecure_channel(f"unix:{self.run_dir / (name + '.sock')}", options)

    def messages(self, name: str) -> Any:
        """The generated module of a daemon's protocol."""
        return self.protocol[name]

    def call(self, name: str, method: str, request: Any, reply_type: str, timeout: float = 60) -> Any:
        """A unary call."""
        reply = getattr(self.messages(name), reply_type)
        rpc = self.channel(name).unary_unary(
            f"/tandem.v1.{name.capitalize()}/{method}", type(request).SerializeToString, reply.FromString
        )
        return rpc(request, timeout=timeout)

    def stream(self, name: str, method: str, request: Any, reply_type: str, timeout: float = 600) -> Iterator[Any]:
        """A call that streams its replies."""
        reply = getattr(self.messages(name), reply_type)
        rpc = self.channel(name).unary_stream(
            f"/tandem.v1.{name.capitalize()}/{method}", type(request).SerializeToString, reply.FromString
        )
        return rpc(request, timeout=timeout)

    # ---- jobs

    def submit(self, job: dict[str, Any]) -> int:
        """Submits a job (JSON is YAML) and returns its id."""
        request = self.messages("trainer").SubmitJobRequest(yaml=json.dumps(job), base_dir=str(self.root))
        return self.call("trainer", "SubmitJob", request, "SubmitJobResponse").job.id

    def job(self, job_id: int) -> Any:
        """The job as the trainer reports it."""
        return self.call("trainer", "GetJob", self.messages("trainer").GetJobRequest(job_id=job_id), "Job")

    def wait_job(self, job_id: int, seconds: float = 900) -> Any:
        """Waits until the job has ended, over restarts of the trainer; raises if it did not succeed."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            try:
                job = self.job(job_id)
            except grpc.RpcError:
                time.sleep(0.1)
                continue
            if job.state >= 4:
                if job.state != 4:
                    raise RuntimeError(f"job {job_id} ended in state {job.state}: {job.error}")
                return job
            time.sleep(0.05)
        raise TimeoutError(f"job {job_id} still runs after {seconds} s")

    def wait_step(self, job_id: int, step: int, seconds: float = 300) -> None:
        """Waits until the job has committed a step."""
        deadline = time.monotonic() + seconds
        while self.job(job_id).step < step:
            if time.monotonic() > deadline:
                raise TimeoutError(f"job {job_id} did not reach step {step}")
            time.sleep(0.01)

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Runs the CLI against this run directory."""
        command = [str(bin_dir() / "tandem"), *arguments]
        environment = os.environ | {"TANDEM_RUN_DIR": str(self.run_dir)}
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)


def write_jsonl(path: Path, rows: list[dict[str, Any]]) -> None:
    """One JSON object a line."""
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))


def sums(count: int, start: int = 0) -> list[dict[str, Any]]:
    """Addition problems: prompt, completion and answer."""
    pairs = [(10 + (i * 37) % 90, 10 + (i * 53 + i // 90) % 90) for i in range(start, start + count)]
    return [{"prompt": f"{a}+{b}=", "completion": str(a + b), "answer": str(a + b)} for a, b in pairs]


def digit_sums() -> list[dict[str, Any]]:
    """All sums of two digits: easy enough to be right by chance."""
    return [{"prompt": f"{a}+{b}=", "completion": str(a + b), "answer": str(a + b)} for a in range(10) for b in range(10)]


def make_model(path: Path, **dimensions: int) -> None:
    """A checkpoint with random weights, by the CLI."""
    flags = [f"--{name}={value}" for name, value in dimensions.items()]
    subprocess.run([str(bin_dir() / "tandem"), "model", "init", "--out", str(path), *flags], check=True)


def mappings(pid: int) -> list[dict[str, Any]]:
    """The process's mappings from smaps: device, inode, path, permissions, and sizes in bytes."""
    out: list[dict[str, Any]] = []
    for line in Path(f"/proc/{pid}/smaps").read_text().splitlines():
        fields = line.split(maxsplit=5)
        if "-" in fields[0] and not fields[0].endswith(":"):
            start, end = (int(x, 16) for x in fields[0].split("-"))
            name = fields[5] if len(fields) > 5 else ""
            out.append(
                {"start": start, "size": end - start, "permissions": fields[1], "offset": int(fields[2], 16),
                 "device": fields[3], "inode": int(fields[4]), "path": name}
            )  # fmt: skip
        elif len(fields) == 3 and fields[2] == "kB":
            out[-1][fields[0].rstrip(":")] = int(fields[1]) * 1024
    return out
