"""Facts of the machine that results were measured on. Standard library only."""
import datetime
import glob
import os
import platform
import re
import shutil
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests/apps"))
import runner  # noqa: E402

TORCH_PYTHONS = ["/opt/torch/.venv/bin/python3", "python3"]


def first_line(command):
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.stdout.strip().splitlines()[0] if done.stdout.strip() else None
    except (OSError, subprocess.TimeoutExpired):
        return None


def has_gpu():
    program = "import ctypes, sys; sys.exit(ctypes.CDLL('libcuda.so.1').cuInit(0))"
    return runner.run([sys.executable, "-c", program], os.environ, 60)["code"] == 0


def gpu_count():
    try:
        done = subprocess.run(["nvidia-smi", "-L"], capture_output=True, text=True, timeout=60)
        return sum(line.startswith("GPU ") for line in done.stdout.splitlines())
    except (OSError, subprocess.TimeoutExpired):
        return 0


def commit_of(build):
    """The commit of a build. For what scripts/stage gathered it is the one noted there; the tree around may differ."""
    if os.environ.get("CUPOLA_COMMIT"):
        return os.environ["CUPOLA_COMMIT"]
    if os.path.exists(build + "/commit.txt"):
        with open(build + "/commit.txt") as file:
            return file.read().strip()
    return first_line(["git", "-C", ROOT, "rev-parse", "HEAD"])


def torch_python():
    for python in TORCH_PYTHONS:
        if shutil.which(python) and first_line([python, "-c", "import torch; print(1)"]) == "1":
            return python
    return None


def compute_sanitizer():
    """The toolkit's compute-sanitizer, or None if there is none."""
    places = sorted(glob.glob("/usr/local/cuda*/bin/compute-sanitizer"), reverse=True)
    return shutil.which("compute-sanitizer") or next(iter(places), None)


def facts(build, python):
    """The facts without which results mean little: the GPU, its driver, the processor, the software."""
    query = "--query-gpu=name,driver_version,memory.total"
    gpu = first_line(["nvidia-smi", query, "--format=csv,noheader"])
    cpu = first_line(["sh", "-c", "sed -n 's/^model name.*: //p' /proc/cpuinfo"])
    versions = "import torch; print(torch.__version__, 'CUDA', torch.version.cuda)"
    return {"gpu": gpu, "cuda_driver": first_line(
                ["sh", "-c", "nvidia-smi | grep -o 'CUDA.*Version: *[0-9.]*'"]),
            "nvcc": first_line(["sh", "-c", "nvcc --version | grep release"]),
            "torch": first_line([python, "-c", versions]) if python else None,
            "kernel": platform.release(), "system": first_line(
                ["sh", "-c", ". /etc/os-release; echo $PRETTY_NAME"]),
            "libc": " ".join(platform.libc_ver()), "cpu": cpu, "cpus": os.cpu_count(),
            "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
            "commit": commit_of(build)}


def note_measured(detail, what, machine_facts, seconds):
    """detail["measured"][what]: on which GPU, from which commit, when, and in how many seconds."""
    detail.setdefault("measured", {})[what] = {
        **{key: machine_facts.get(key) for key in ("gpu", "commit", "date")},
        "seconds": round(seconds, 1)}


def gpu_folder(machine_facts):
    """The name of a GPU as folders have it: "NVIDIA H200, 580..." is h200; "sim" without one."""
    if not machine_facts.get("gpu"):
        return "sim"
    name = machine_facts["gpu"].split(",")[0].replace("NVIDIA", "").strip().lower()
    return re.sub(r"[^a-z0-9]+", "-", name)
