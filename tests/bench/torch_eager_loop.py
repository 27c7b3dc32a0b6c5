#!/usr/bin/env python3
"""A loop of small PyTorch operations that the processor, not the GPU, limits. Prints JSON: the
host's microseconds an operation, one figure an iteration of 100 operations; the device is drained
between iterations, outside the time. Exit code 77 without PyTorch and a GPU."""
import argparse
import json
import sys
import time

try:
    import torch
except ImportError:
    torch = None

OPERATIONS = 100


def iteration(x, y):
    for _ in range(OPERATIONS // 5):
        z = x + y
        z = z * 1.5
        z = torch.relu(z)
        z = z - x
        z = torch.tanh(z)
    return z


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--warm-ups", type=int, default=300)
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("torch_eager_loop: needs PyTorch and a GPU", file=sys.stderr)
        return 77
    x = torch.ones(1024, device="cuda")
    y = torch.full((1024,), 0.5, device="cuda")
    times = []
    with torch.no_grad():
        for number in range(-options.warm_ups, options.iterations):
            start = time.perf_counter_ns()
            iteration(x, y)
            end = time.perf_counter_ns()
            torch.cuda.synchronize()
            if number >= 0:
                times.append(round((end - start) / OPERATIONS / 1000, 4))
    print(json.dumps({"operations_of_an_iteration": OPERATIONS, "us": times}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
