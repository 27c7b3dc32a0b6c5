"""scripts/bench on the simulated device: it runs, and what it writes has the promised form. Its
times mean nothing there. usage: bench_test.py BUILD"""
import json
import os
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
METRICS = ["hook_ns_p50", "hook_ns_p99", "hook_ns_p50_no_records", "launch_added_ns_median",
           "launch_added_ns_ci_low", "launch_added_ns_ci_high", "launch_plain_ns_median",
           "launch_added_in_process_ns_median"]


def main():
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, ROOT + "/scripts/bench", "launch_cost", "--build", sys.argv[1],
                   "--device", "sim", "--quick", "--out", folder]
        done = subprocess.run(command, capture_output=True, text=True, timeout=100)
        print(done.stdout, done.stderr)
        if done.returncode != 0:
            return 1
        with open(folder + "/launch_cost.json") as file:
            result = json.load(file)
    assert set(result) == {"machine", "date", "commit", "metrics", "detail"}, sorted(result)
    for name in METRICS:
        assert isinstance(result["metrics"].get(name), (int, float)), name
    metrics = result["metrics"]
    assert metrics["launch_added_ns_ci_low"] <= metrics["launch_added_ns_median"]
    assert metrics["launch_added_ns_median"] <= metrics["launch_added_ns_ci_high"]
    assert metrics["hook_ns_p50"] > 0 and metrics["launch_plain_ns_median"] > 0
    return 0


if __name__ == "__main__":
    sys.exit(main())
