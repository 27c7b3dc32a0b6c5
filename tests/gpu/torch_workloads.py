#!/usr/bin/env python3
"""PyTorch workloads with fixed seeds and deterministic algorithms: eager training of a small MLP,
a CUDA graph captured and replayed, and a function compiled by torch.compile (Triton).

Prints a checksum (FNV-1a, 64 bits) of every resulting tensor, so that a run plain and a run under
Cupola can be compared byte for byte. With --profile FILE it also counts kernel launches with
torch.profiler, for comparison with the launches that Cupola saw; profile separately, since the
profiler stands in front of the driver itself. Needs PyTorch and a GPU: exit code 77 without.

  python3 tests/gpu/torch_workloads.py [--only eager,graph,compile] [--profile counts.json]
"""
import argparse
import json
import os
import sys
import tempfile

os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # cuBLAS results independent of streams

try:
    import torch
except ImportError:
    torch = None


def fnv1a(tensor):
    data = tensor.detach().contiguous().cpu().view(torch.uint8).numpy().tobytes()
    value = 0xcbf29ce484222325
    for byte in data:
        value = ((value ^ byte) * 0x100000001b3) & 0xffffffffffffffff
    return f"{value:016x}"


def report(name, tensor):
    print(f"{name:28} {tuple(tensor.shape)!s:14} mean {tensor.double().mean().item():+.12e} "
          f"checksum {fnv1a(tensor)}", flush=True)


def make_model(width):
    torch.manual_seed(1234)
    return torch.nn.Sequential(torch.nn.Linear(64, width), torch.nn.GELU(),
                               torch.nn.LayerNorm(width), torch.nn.Linear(width, 64)).cuda()


def inputs(rows):
    generator = torch.Generator().manual_seed(99)
    return (torch.randn(rows, 64, generator=generator).cuda(),
            torch.randn(rows, 64, generator=generator).cuda())


def eager():
    """Ten steps of Adam: forward, loss, backward, update."""
    model = make_model(128)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
    x, target = inputs(256)
    for _ in range(10):
        optimizer.zero_grad(set_to_none=True)
        loss = torch.nn.functional.mse_loss(model(x), target)
        loss.backward()
        optimizer.step()
    report("eager loss", loss.reshape(1))
    report("eager first weight", model[0].weight)
    report("eager last weight", model[3].weight)
    scores = torch.softmax(model(x) @ target.t(), dim=1)
    report("eager softmax", scores[:32])
    report("eager sort", torch.sort(scores.flatten()[:4096]).values)
    report("eager cumsum", torch.arange(10000, device="cuda").cumsum(0))


def graph():
    """A forward pass captured once and replayed with new inputs in the same memory."""
    model = make_model(96).eval()
    x, other = inputs(128)
    static_x = x.clone()
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side), torch.no_grad():
        for _ in range(3):
            model(static_x)
    torch.cuda.current_stream().wait_stream(side)
    captured = torch.cuda.CUDAGraph()
    with torch.cuda.graph(captured), torch.no_grad():
        static_y = model(static_x)
    for step, source in enumerate((x, other, x + other)):
        static_x.copy_(source)
        captured.replay()
        torch.cuda.synchronize()
        report(f"graph replay {step}", static_y)


def compiled():
    """A pointwise function with a row reduction, which Inductor turns into Triton kernels."""
    def function(a, b):
        c = torch.sin(a) * b + torch.relu(a - b)
        return c / (c.abs().sum(dim=1, keepdim=True) + 1.0)

    fast = torch.compile(function, dynamic=False)
    a, b = inputs(200)
    report("compile first call", fast(a, b))
    report("compile second call", fast(b, a))


WORKLOADS = {"eager": eager, "graph": graph, "compile": compiled}


def count_launches(work):
    """Launches by call, and kernels that ran (also in graphs) by grid and block, as torch.profiler
    sees them."""
    from torch.profiler import ProfilerActivity, profile
    with profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA]) as profiler:
        work()
        torch.cuda.synchronize()
    with tempfile.TemporaryDirectory() as folder:
        profiler.export_chrome_trace(folder + "/trace.json")
        with open(folder + "/trace.json") as file:
            events = json.load(file)["traceEvents"]
    calls, shapes = {}, {}
    for event in events:
        category, name = event.get("cat"), event.get("name", "")
        if category == "kernel":
            grid, block = event["args"]["grid"], event["args"]["block"]
            shape = "x".join(map(str, grid)) + " " + "x".join(map(str, block))
            shapes[shape] = shapes.get(shape, 0) + 1
        if category in ("cuda_runtime", "cuda_driver") and "Launch" in name:
            calls[name] = calls.get(name, 0) + 1
    return {"calls": calls, "device_kernels": sum(shapes.values()), "shapes": shapes}


def main():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="eager,graph,compile")
    parser.add_argument("--profile", help="also count launches; write the counts to this file")
    options = parser.parse_args()
    if torch is None or not torch.cuda.is_available():
        print("torch_workloads: needs PyTorch and a GPU", file=sys.stderr)
        return 77
    torch.use_deterministic_algorithms(True)
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
    counts = {}
    for name in options.only.split(","):
        work = WORKLOADS[name]
        if options.profile:
            counts[name] = count_launches(work)
        else:
            work()
    if options.profile:
        with open(options.profile, "w") as file:
            json.dump(counts, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
