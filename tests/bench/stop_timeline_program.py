#!/usr/bin/env python3
"""One program of the timeline of a stop inside a graph (real_pytorch_single.py): kernels that note when they began and ended.

  stop_timeline_program.py train|serve

train: a CUDA graph of KERNELS kernels of KERNEL_US each, launched again and again. serve: a request every 20 ms, of one
kernel of KERNEL_US, launched alone. Says "ready"; then, for a line "SECONDS" on standard input, works for so long and prints
one JSON object, in nanoseconds of the GPU's clock (%globaltimer): "kernels", [begin, end] of each, and for serve "requests",
[came, answered] of each. Needs CuPy."""
import json
import sys
import time

import cupy

KERNELS, KERNEL_US, REQUEST_EVERY_NS = 100, 300, 20_000_000
MOST = 1 << 16  # kernels that are noted
SOURCE = r"""
__device__ unsigned long long Now() { unsigned long long now; asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now)); return now; }
extern "C" __global__ void spend(unsigned long long* noted, unsigned* count, unsigned us) {
  const unsigned long long begin = Now();
  // Work, not time on the clock: a kernel that is interrupted takes longer.
  for (volatile unsigned i = 0; i < us * WORK_PER_US; ++i) {}
  const unsigned at = atomicAdd(count, 1u);
  if (at < MOST) { noted[2 * at] = begin; noted[2 * at + 1] = Now(); }
}
"""


def kernel_of(work):
    source = f"#define WORK_PER_US {work}\n#define MOST {MOST}u\n{SOURCE}"
    return cupy.RawKernel(source, "spend")


class Notes:
    def __init__(self):
        self.noted, self.count = cupy.zeros(2 * MOST, cupy.uint64), cupy.zeros(1, cupy.uint32)
        self.kernel = kernel_of(20)
        rate = min(self.length(1000) for _ in range(5)) / 1000  # ns of 1 us of work
        self.kernel = kernel_of(max(1, round(20 * 1000 / rate)))

    def clear(self):
        self.count.fill(0)
        cupy.cuda.Device().synchronize()

    def launch(self, us=KERNEL_US):
        self.kernel((1,), (1,), (self.noted, self.count, cupy.uint32(us)))

    def length(self, us):
        self.clear()
        self.launch(us)
        begin, end = self.kernels()[0]
        return end - begin

    def kernels(self):
        count = min(int(self.count.get()[0]), MOST)
        return self.noted.get()[:2 * count].reshape(-1, 2).tolist()


def clock_offset(notes):
    """GPU time less time.time_ns(), from the launches that took least."""
    best = None
    for _ in range(50):
        notes.clear()
        before = time.time_ns()
        notes.launch(1)
        cupy.cuda.get_current_stream().synchronize()
        after = time.time_ns()
        begin, end = notes.kernels()[0]
        if best is None or after - before < best[0]:
            best = (after - before, (begin + end) // 2 - (before + after) // 2)
    return best[1]


def train(notes, stream, seconds):
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        notes.graph.launch(stream)
        stream.synchronize()


def serve(notes, stream, seconds, offset):
    requests, next_ns = [], time.time_ns()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        next_ns += REQUEST_EVERY_NS
        while time.time_ns() < next_ns:
            time.sleep(0.0001)
        came = time.time_ns()
        notes.launch()
        stream.synchronize()
        requests.append([came + offset, time.time_ns() + offset])
    return requests


def main():
    role = sys.argv[1]
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream:
        notes = Notes()
        offset = clock_offset(notes)
        if role == "train":
            stream.begin_capture()
            for _ in range(KERNELS):
                notes.launch()
            notes.graph = stream.end_capture()
        print("ready", flush=True)
        for line in sys.stdin:
            notes.clear()
            requests = []
            if role == "train":
                train(notes, stream, float(line))
            else:
                requests = serve(notes, stream, float(line), offset)
            print(json.dumps({"kernels": notes.kernels(), "requests": requests}), flush=True)


if __name__ == "__main__":
    main()
