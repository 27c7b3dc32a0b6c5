#!/usr/bin/env python3
"""One program of the training on two GPUs, with a server beside it on each (collective.py):

  collective_program.py rank RANK PORT     matrix products and sums over both GPUs by NCCL, and its steps as a CUDA graph
  collective_program.py server GPU         small matrix products, one request at a time

Says "ready"; then for each line on standard input it prints one JSON object:
  rank: STEPS eager|graph   "seconds" of so many steps, "longest_ms" of a wait for four of them, "digest" of what was summed
  server: SECONDS           works for so long; "latency_ns" of each request, one every 15 ms"""
import hashlib
import json
import sys
import time

from real_pytorch_program import captured

WARM = 3


def training(torch, distributed, rank, port):
    """A function that makes one step, and the memory that gathers what the steps have summed."""
    device = torch.device("cuda", rank)
    distributed.init_process_group("nccl", rank=rank, world_size=2, init_method=f"tcp://127.0.0.1:{port}", device_id=device)
    torch.manual_seed(rank)
    weights = [torch.randn(4096, 4096, device=device, dtype=torch.bfloat16) / 64 for _ in range(6)]
    given = torch.randn(4096, 4096, device=device, dtype=torch.bfloat16)
    summed, gathered = (torch.zeros(4096 * 4096, device=device) for _ in range(2))

    def step():
        value = given
        for weight in weights:
            value = value @ weight
            summed.copy_(value.view(-1))
            distributed.all_reduce(summed)
        gathered.mul_(0.5).add_(summed)
    return step, gathered


def work(torch, step, gathered, steps):
    gathered.zero_()
    torch.cuda.synchronize()
    begin, longest = time.monotonic(), 0
    for number in range(steps):
        step()
        if number % 4 == 3:
            before = time.monotonic()
            torch.cuda.synchronize()
            longest = max(longest, time.monotonic() - before)
    torch.cuda.synchronize()
    return {"seconds": time.monotonic() - begin, "longest_ms": round(1e3 * longest, 1),
            "digest": hashlib.sha256(gathered.cpu().numpy().tobytes()).hexdigest()[:16]}


def serve(torch, given, seconds):
    latency_ns, end = [], time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.015)
        before = time.monotonic_ns()
        _ = given @ given @ given
        torch.cuda.synchronize()
        latency_ns.append(time.monotonic_ns() - before)
    return {"latency_ns": latency_ns}


def main():
    import torch
    torch.cuda.set_device(int(sys.argv[2]))
    if sys.argv[1] == "rank":
        step, gathered = training(torch, torch.distributed, int(sys.argv[2]), sys.argv[3])
        for _ in range(WARM):
            step()
        steps = {"eager": step, "graph": captured(torch, step)}
    else:
        given = torch.randn(2048, 2048, device="cuda")
        serve(torch, given, 0.1)
    print("ready", flush=True)
    for line in sys.stdin:
        words = line.split()
        if sys.argv[1] == "rank":
            answer = work(torch, steps[words[1]], gathered, int(words[0]))
        else:
            answer = serve(torch, given, float(words[0]))
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
