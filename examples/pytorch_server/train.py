"""Trains a transformer, each step a CUDA graph, until its standard input ends. Prints "ready" first, then the steps per
second."""
import sys
import threading
import time

import torch

torch.manual_seed(1)
model = torch.nn.Sequential(*[torch.nn.TransformerEncoderLayer(1024, 16, 4096, dropout=0, batch_first=True)
                              for _ in range(8)]).cuda().bfloat16()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, fused=True, capturable=True)
inputs = torch.randn(16, 512, 1024, device="cuda").bfloat16()


def step():
    optimizer.zero_grad(set_to_none=False)
    torch.nn.functional.mse_loss(model(inputs), inputs).backward()
    optimizer.step()


stream = torch.cuda.Stream()
with torch.cuda.stream(stream):
    for _ in range(3):
        step()
stream.synchronize()
graph = torch.cuda.CUDAGraph()
with torch.cuda.graph(graph):
    step()

ended = threading.Event()
threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
print("ready", flush=True)
steps, begin = 0, time.monotonic()
while not ended.is_set():
    graph.replay()
    steps += 1
    torch.cuda.synchronize()
print(f"{steps / (time.monotonic() - begin):.1f} steps/s")
