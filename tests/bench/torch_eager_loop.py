#!/usr/bin/env python3
"""A loop of small PyTorch operations that the processor, not the GPU, limits. Prints JSON: the
host's microseconds an operation, one figure an iteration of 100 operations; the device is drained
between iterations, outside the time. With --switch, under Cupola, iterations with its launch hooks
and without them alternate, in random order two by two. Exit code 77 without PyTorch and a GPU."""
import argparse
import json
import os
import random
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


def timed(x, y):
    """Microseconds an operation of one iteration."""
    start = time.perf_counter_ns()
    iteration(x, y)
    end = time.perf_counter_ns()
    torch.cuda.synchronize()
    return round((end - start) / OPERATIONS / 1000, 4)


def alternate(x, y, iterations):
    """Pairs of iterations, (without hooks, with hooks)."""
    sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
    import hook_switch
    switch = hook_switch.HookSwitch()
    order = random.Random(1)
    pairs = []
    for _ in range(iterations):
        pair = [0, 0]
        first = order.randrange(2)
        for on in (first, 1 - first):
            switch.set(bool(on))
            timed(x, y)  # what the last state left in the processor's caches is gone
            pair[on] = timed(x, y)
        pairs.append(pair)
    return {"plain_us": [pair[0] for pair in pairs], "us": [pair[1] for pair in pairs],
            "switched_variables": len(switch.variables)}


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--warm-ups", type=int, default=300)
    parser.add_argument("--switch", action="store_true")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("torch_eager_loop: needs PyTorch and a GPU", file=sys.stderr)
        return 77
    x = torch.ones(1024, device="cuda")
    y = torch.full((1024,), 0.5, device="cuda")
    with torch.no_grad():
        for _ in range(options.warm_ups):
            timed(x, y)
        if options.switch:
            result = alternate(x, y, options.iterations)
        else:
            result = {"us": [timed(x, y) for _ in range(options.iterations)]}
    print(json.dumps({"operations_of_an_iteration": OPERATIONS, **result}))
    return 0


if __name__ == "__main__":
    sys.exit(main())
