#!/usr/bin/env python3
"""One program of the pairs of real_pytorch.py: an inference server or a training, as PyTorch programs are written.

  real_pytorch_program.py infer|train --model gpt|resnet --mode graph|eager|compile [--batch N] [--graphs N]

Says "ready" when it is warm. Then for each line on standard input it prints one JSON object:
  SECONDS [SEED]  works for so long. infer: requests come as a Poisson process of RATE a second; "latency_ns" from a
                  request's coming to its answer in host memory. train: steps; "done_ns" of each.
  kernels         what the kernels of one step or request take ("kernels_us"), as CUPTI tells. Not for a program that
                  Cupola may stop: it steps aside for profilers.
  check STEPS     train: so many steps from a fixed state; "losses" as float.hex, to be compared bit by bit.
The models: a transformer (for inference 12 layers, d = 768, 128 tokens; for training 12 layers, d = 2048, 6 x 1,024
tokens, bf16, fused AdamW), and ResNet-50 (inference at 224 x 224; training with 64 images, bf16, SGD)."""
import argparse
import json
import os
import random
import statistics
import sys
import time

RATE = 60  # requests a second
WARM = 12  # steps before anything is measured or captured
LOG_EVERY = 10  # steps of training between two losses that the program reads, as trainings log them


def gpt(torch, vocabulary, width, heads, layers, tokens):
    functional = torch.nn.functional

    class Layer(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.before_attention, self.before_mlp = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
            self.query_key_value = torch.nn.Linear(width, 3 * width)
            self.projection = torch.nn.Linear(width, width)
            self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)

        def forward(self, x):
            rows, length, _ = x.shape
            heads_apart = self.query_key_value(self.before_attention(x)).view(rows, length, 3, heads, width // heads)
            query, key, value = heads_apart.permute(2, 0, 3, 1, 4)
            attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
            x = x + self.projection(attended.transpose(1, 2).reshape(rows, length, width))
            return x + self.down(functional.gelu(self.up(self.before_mlp(x))))

    class Gpt(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.token, self.position = torch.nn.Embedding(vocabulary, width), torch.nn.Embedding(tokens, width)
            self.layers = torch.nn.ModuleList(Layer() for _ in range(layers))
            self.norm, self.head = torch.nn.LayerNorm(width), torch.nn.Linear(width, vocabulary, bias=False)

        def forward(self, ids):
            x = self.token(ids) + self.position.weight[:ids.shape[1]]
            for layer in self.layers:
                x = layer(x)
            return self.head(self.norm(x))
    return Gpt().cuda()


def resnet(torch):
    import torchvision
    return torchvision.models.resnet50(weights=None).cuda().to(memory_format=torch.channels_last)


def captured(torch, step):
    """`step` as a CUDA graph: a function that replays it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def inference(torch, options):
    """A function that answers one request: input from host memory, answer in host memory."""
    torch.manual_seed(2)
    if options.model == "gpt":
        net = gpt(torch, 32000, 768, 12, 12, 128).bfloat16().eval()
        request = torch.randint(0, 32000, (options.batch, 128)).pin_memory()
    else:
        net = resnet(torch).bfloat16().eval()
        request = torch.randn(options.batch, 3, 224, 224).bfloat16().to(memory_format=torch.channels_last).pin_memory()
    model = torch.compile(net) if options.mode == "compile" else net
    given = request.cuda()

    def forward():
        with torch.inference_mode():
            out = model(given)
            return (out[:, -1] if options.model == "gpt" else out).argmax(-1)
    for _ in range(WARM):
        answer = forward()
    held = {}
    if options.mode == "graph":
        def keep():
            held["answer"] = forward()
        replays = [captured(torch, keep) for _ in range(options.graphs)]
    into = torch.empty(answer.shape, dtype=answer.dtype).pin_memory()

    def answer_one():
        given.copy_(request, non_blocking=True)
        if options.mode == "graph":
            replays.append(replays.pop(0))
            replays[-1]()
            into.copy_(held["answer"], non_blocking=True)
        else:
            into.copy_(forward(), non_blocking=True)
        torch.cuda.current_stream().synchronize()
    return answer_one


def training(torch, options):
    """A function that makes one step, asynchronously, and returns its loss on the device."""
    torch.manual_seed(1)
    functional = torch.nn.functional
    if options.model == "gpt":
        net = gpt(torch, 32000, 2048, 16, 12, 1024).bfloat16()
        data = torch.randint(0, 32000, (6, 1024), device="cuda")
        optimiser = torch.optim.AdamW(net.parameters(), lr=1e-5, fused=True, capturable=True)
    else:
        net = resnet(torch).bfloat16()
        data = torch.randn(64, 3, 224, 224, device="cuda").bfloat16().to(memory_format=torch.channels_last)
        target = torch.randint(0, 1000, (64,), device="cuda")
        optimiser = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    model = torch.compile(net) if options.mode == "compile" else net
    loss = torch.zeros((), device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=False)
        out = model(data)
        if options.model == "gpt":
            found = functional.cross_entropy(out.view(-1, out.shape[-1]).float(), data.view(-1))
        else:
            found = functional.cross_entropy(out.float(), target)
        found.backward()
        optimiser.step()
        loss.copy_(found.detach())
        return loss
    for _ in range(WARM):
        step()
    if options.mode != "graph":
        return step
    replay = captured(torch, step)

    def replayed():
        replay()
        return loss
    return replayed


def serve(torch, answer, seconds, seed):
    prng = random.Random(seed)
    latency_ns, start_ns = [], []
    begin = time.monotonic_ns()
    arrival, stop = begin, begin + int(seconds * 1e9)
    while True:
        arrival += int(prng.expovariate(RATE) * 1e9)
        if arrival >= stop:
            break
        left = arrival - time.monotonic_ns()
        if left > 0:
            time.sleep(left / 1e9)
            arrival = max(arrival, time.monotonic_ns() - 100_000)  # a sleep that ends late is not the answer's
        before = max(arrival, begin)
        answer()
        latency_ns.append(time.monotonic_ns() - before)
        start_ns.append(before)
    return {"start_ns": start_ns, "latency_ns": latency_ns, "seconds": seconds}


def train(torch, step, seconds):
    """Reads the loss every LOG_EVERY steps; the times of steps are those of events behind them."""
    events, begin = [], time.monotonic_ns()
    stop = begin + int(seconds * 1e9)
    done_ns, pending, call_ms, host_ms = [], [], [], []
    while time.monotonic_ns() < stop:
        before, before_cpu = time.monotonic_ns(), time.thread_time_ns()
        loss = step()
        call_ms.append((time.monotonic_ns() - before) / 1e6)
        host_ms.append((time.thread_time_ns() - before_cpu) / 1e6)
        event = torch.cuda.Event()
        event.record()
        pending.append(event)
        if len(pending) > 1:  # a step ahead of the device, as loops with a data loader are
            pending.pop(0).synchronize()
            done_ns.append(time.monotonic_ns())
        events.append(event)
        if len(events) % LOG_EVERY == 0:
            loss.item()
    pending.pop(0).synchronize()
    done_ns.append(time.monotonic_ns())
    return {"start_ns": begin, "done_ns": done_ns, "steps": len(done_ns), "call_ms": statistics.median(call_ms),
            "host_ms": statistics.median(host_ms)}


def kernels_us(torch, step, steps=5):
    """The kernels of the step of `steps` whose sum is the median: name and microseconds, in their order."""
    from torch.profiler import ProfilerActivity, profile
    found = []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            step()
            torch.cuda.synchronize()
        on_device = [event for event in profiler.events() if event.device_type == torch.autograd.DeviceType.CUDA]
        on_device.sort(key=lambda event: event.time_range.start)
        found.append([round(event.time_range.elapsed_us(), 2) for event in on_device])
    return sorted(found, key=sum)[steps // 2]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("role", choices=["infer", "train"])
    parser.add_argument("--model", choices=["gpt", "resnet"], default="gpt")
    parser.add_argument("--mode", choices=["graph", "eager", "compile"], default="graph")
    parser.add_argument("--batch", type=int, default=1, help="requests of one inference")
    parser.add_argument("--graphs", type=int, default=1, help="of an inference in graphs, which take turns")
    parser.add_argument("--deterministic", action="store_true", help="the same losses bit by bit in each run")
    options = parser.parse_args()
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch
    torch.backends.cudnn.benchmark = False
    if options.deterministic:
        torch.use_deterministic_algorithms(True)
    begun = time.monotonic()
    step = (inference if options.role == "infer" else training)(torch, options)
    for _ in range(3):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    print(f"warm after {time.monotonic() - begun:.1f} s, {torch.cuda.memory_reserved() >> 20} MiB", file=sys.stderr)
    for line in sys.stdin:
        words = line.split()
        if words[0] == "kernels":
            result = {"kernels_us": kernels_us(torch, step)}
        elif words[0] == "memory":
            free, total = torch.cuda.mem_get_info()
            result = {"used_bytes": total - free}
        elif words[0] == "check":
            result = {"losses": [step().item().hex() for _ in range(int(words[1]))]}
        elif options.role == "infer":
            result = serve(torch, step, float(words[0]), int(words[1]) if len(words) > 1 else 1)
        else:
            result = train(torch, step, float(words[0]))
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
