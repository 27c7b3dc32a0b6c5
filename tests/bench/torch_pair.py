"""PyTorch training beside PyTorch inference on one GPU. Their kernels carry no PTX: what Cupola has
for them is launch priority (MPS) and gates.

As a program, `torch_pair.py train|infer`: says "ready", then for each line "SECONDS" on standard
input works for so long and prints one JSON object; for the line "kernels", what the kernels of a
step take. As a module, measure() runs both alone and together, plain and under Cupola, and gives the
metrics torch_*."""
import json
import math
import random
import sys
import time

BATCH_ROWS, WIDTH = 4096, 4096  # of training: kernels of some hundred microseconds
INFER_ROWS, INFER_WIDTH = 16, 1024
TURN_SECONDS = 1.5
SAMPLES = ("infer_alone_us", "infer_us")


def model(torch, width, layers):
    parts = []
    for _ in range(layers):
        parts += [torch.nn.Linear(width, width), torch.nn.GELU()]
    return torch.nn.Sequential(*parts).cuda()


def train(torch):
    """A step of training, asynchronous; synchronised every fourth, as loggers do."""
    torch.manual_seed(1)
    torch.set_float32_matmul_precision("high")  # TF32, as trainings have it: in FP32 2.6 ms a kernel
    net = model(torch, WIDTH, 4)
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    data = torch.randn(BATCH_ROWS, WIDTH, device="cuda")

    def step():
        optimiser.zero_grad(set_to_none=True)
        net(data).square().mean().backward()
        optimiser.step()
    return step


def work_train(torch, step, seconds):
    done_ns, stop = [], time.monotonic_ns() + seconds * 1e9
    start = time.monotonic_ns()
    while time.monotonic_ns() < stop:
        for _ in range(4):
            step()
        torch.cuda.synchronize()
        done_ns.append(time.monotonic_ns())
    return {"start_ns": start, "done_ns": done_ns, "steps": 4 * len(done_ns)}


def infer(torch):
    torch.manual_seed(2)
    net = model(torch, INFER_WIDTH, 4).eval()
    data = torch.randn(INFER_ROWS, INFER_WIDTH, device="cuda")

    def step():
        with torch.inference_mode():
            net(data)
    return step


def work_infer(torch, step, seconds):
    """An inference every 3 to 5 ms: from before it to after its synchronise."""
    prng = random.Random(1)
    found, start_ns, stop = [], [], time.monotonic_ns() + seconds * 1e9
    while time.monotonic_ns() < stop:
        time.sleep(prng.uniform(0.003, 0.005))
        before = time.monotonic_ns()
        step()
        torch.cuda.synchronize()
        found.append(time.monotonic_ns() - before)
        start_ns.append(before)
    return {"start_ns": start_ns, "latency_ns": found}


def kernels_us(torch, step, steps=9):
    """What the kernels of a step take, in their order, as CUPTI tells: of the step of `steps` whose
    sum is the median. Synchronises. Only for a program that Cupola does not stop: it steps aside."""
    from torch.profiler import ProfilerActivity, profile
    found = []
    for _ in range(steps):
        with profile(activities=[ProfilerActivity.CUDA]) as profiler:
            step()
            torch.cuda.synchronize()
        on_device = [event for event in profiler.events()
                     if event.device_type == torch.autograd.DeviceType.CUDA]
        on_device.sort(key=lambda event: event.time_range.start)
        found.append([event.time_range.elapsed_us() for event in on_device])
    return sorted(found, key=sum)[steps // 2]


def program(role):
    import torch
    step = {"train": train, "infer": infer}[role](torch)
    for _ in range(10):
        step()
    torch.cuda.synchronize()
    print("ready", flush=True)
    work = {"train": work_train, "infer": work_infer}[role]
    for line in sys.stdin:
        if line.strip() == "kernels":
            result = kernels_us(torch, step)
        else:
            result = work(torch, step, float(line))
        print(json.dumps(result), flush=True)


def phase(jobs, line, limit):
    """Gives `jobs` the same line at the same time; what each says within `limit` seconds."""
    import corun
    for job in jobs:
        job.process.stdin.write(f"{line}\n".encode())
        job.process.stdin.flush()
    found = []
    for job in jobs:
        answer = job.await_line(limit)
        if answer is None:
            job.kill()
            raise corun.Failed(f"PyTorch, no answer: {job.finish(5)[0]} {job.err[-300:]}")
        found.append(json.loads(answer))
    return found


def pair(bed, python, system, seconds):
    """One mode: {"infer_alone_us", "train_alone", "infer_us", "train"}; rates in steps a second; of plain
    ones "train_kernels_us". Alone is a plain inference program in every mode, so what is Cupola's own is
    in the comparison. All by turns of TURN_SECONDS: a host that halts programs for milliseconds does so
    in minutes of its own, and would give them to one side only."""
    import corun
    programs = {"alone": ("plain", "infer"), "high": (system, "infer"), "low": (system, "train")}
    jobs = {label: bed.start(of, label, [python, __file__, role])
            for label, (of, role) in programs.items()}
    alone, train_alone, beside, together = [], [], [], []
    try:
        for label, job in jobs.items():
            if job.await_line(90) != "ready":
                job.kill()
                raise corun.Failed(f"PyTorch {label}: {job.finish(5)[0]} {job.err[-300:]}")
        for _ in range(math.ceil(seconds / TURN_SECONDS)):
            alone += phase([jobs["alone"]], TURN_SECONDS, 60)
            train_alone += phase([jobs["low"]], TURN_SECONDS / 3, 60)
            high, low = phase([jobs["high"], jobs["low"]], TURN_SECONDS, 60)
            beside.append(high)
            together.append(low)
        row = {}
        if system == "plain":
            row["train_kernels_us"], = phase([jobs["low"]], "kernels", 60)
        for label, job in jobs.items():  # to its end: only then it says what its launches were
            job.end_input()
            job.finish(20)
            bed.count(job, label)
    finally:
        for job in jobs.values():
            job.kill()

    def rate(turns):
        return (sum(turn["steps"] for turn in turns) /
                sum((turn["done_ns"][-1] - turn["start_ns"]) / 1e9 for turn in turns))

    def latency_us(turns):
        return [ns / 1000 for turn in turns for ns in turn["latency_ns"]]
    infer_us = latency_us(beside)
    return {**row, "infer_alone_us": latency_us(alone), "infer_us": infer_us,
            "train_alone": round(rate(train_alone), 3), "train": round(rate(together), 3),
            "infer_per_second": round(len(infer_us) / (TURN_SECONDS * len(beside)), 2)}


def summary_of(row):
    """Of what pair() gives: of the inferences' times a summary, of the kernels of a step of training all."""
    import sampling
    found = {key: sampling.summary(value) if key in SAMPLES else value for key, value in row.items()}
    if "train_kernels_us" in found:
        found["train_kernels_us"] = [round(us, 1) for us in found["train_kernels_us"]]
    return found


def measure(evaluation, python, seconds=11.0):
    """Into detail["torch"], {"metrics", "detail"}: both alone and together in four modes, as far as they
    run; what an earlier call has measured of others stays. The rate in the time left: training's rate
    alone, less the part of the time that the inferences need alone."""
    import corun
    import flep_runs
    import sampling
    torch = evaluation.detail.setdefault("torch", {"metrics": {}, "detail": {}})
    metrics = torch["metrics"]
    for system, sharing in evaluation.chosen(flep_runs.MODES):
        mode = f"{system}_{sharing}"
        if evaluation.seconds_left() < 60:
            evaluation.fail("torch " + mode, "no time left")
            continue
        evaluation.began = evaluation.seconds_left()
        try:
            evaluation.bed.phase = "torch " + mode
            with evaluation.mode(system, sharing):
                row = pair(evaluation.bed, python, system, seconds)
        except (corun.Failed, OSError, ValueError) as error:
            evaluation.fail("torch " + mode, error)
            continue
        suffix = "" if sharing == "nomps" else "_mps"
        metrics[f"torch_infer_p99_us_{system}{suffix}"] = sampling.percentile(row["infer_us"], 0.99)
        metrics[f"torch_infer_p50_us_{system}{suffix}"] = sampling.percentile(row["infer_us"], 0.5)
        if system == "cupola":  # of the same turns as what is judged by it
            metrics["torch_infer_p99_us_alone" + suffix] = sampling.percentile(
                row["infer_alone_us"], 0.99)
        else:
            metrics["torch_train_longest_kernel_us" + suffix] = max(row["train_kernels_us"])
        needed = row["infer_per_second"] * sampling.median(row["infer_alone_us"]) / 1e6
        name = f"torch_train_rate_ratio{'' if system == 'cupola' else '_plain'}{suffix}"
        metrics[name] = row["train"] / (row["train_alone"] * (1 - needed))
        torch["detail"][mode] = summary_of(row)
        evaluation.raw.keep("torch " + mode, {key: row[key] for key in SAMPLES})
        evaluation.note("torch " + mode)


if __name__ == "__main__":
    program(sys.argv[1])
