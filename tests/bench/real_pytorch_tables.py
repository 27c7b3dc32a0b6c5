"""The tables of docs/results/real-pytorch.md, of what real_pytorch.json holds. Standard library only."""
import result_file
from flep_report import table

PAIRS = [("gpt_graph", "transformer as graph beside a training as graph"),
         ("gpt_mixed", "transformer as graph beside an eager training"), ("gpt_eager", "both transformers eager"),
         ("gpt_compile", "both compiled by `torch.compile`"), ("resnet_graph", "ResNet-50 beside ResNet-50, graphs"),
         ("resnet_eager", "ResNet-50 beside ResNet-50, eager")]
WAYS = [("alone", "alone"), ("plain", "plain"), ("cupola", "Cupola"), ("mps", "MPS"), ("mps_prio", "MPS with priorities"),
        ("mps_sms", "the same, training on 94 % of the SMs"), ("cupola_mps", "Cupola under MPS")]
SINGLE = [  # (metric, what it is, goal)
    ("torch_solo_overhead_pct_graph", "a step of the training longer under Cupola, nobody beside, %: graph", "0.5"),
    ("torch_solo_overhead_pct_eager", "the same, eager", "0.5"),
    ("graph_idle_overhead_pct", "graph, with an arbiter, while nobody may ask, %", "0.1"),
    ("graph_pieces_overhead_pct_500us", "graph in pieces of 500 us, while somebody may ask, %", "0.7"),
    ("graph_pieces_overhead_pct", "graph in pieces as shipped (250 us), %", ""),
    ("graph_pieces_overhead_pct_200us", "graph in pieces of 200 us, %", "1.5"),
    ("eager_gates_overhead_pct", "eager, with gates, while somebody may ask, %", ""),
    ("pieces_host_ms_per_step_500us", "processor time more for a step, pieces of 500 us, ms", "2"),
    ("pieces_host_ms_per_step", "processor time more for a step, pieces as shipped, ms", "2"),
    ("pieces_host_ms_per_step_200us", "processor time more for a step, pieces of 200 us, ms", "2"),
    ("pieces_call_ms_per_step", "until the launch call returns, longer than plain, pieces as shipped, ms", ""),
    ("pieces_call_ms_per_step_200us", "until the launch call returns, longer than plain, pieces of 200 us, ms", ""),
    ("piece_build_ms", "to build a piece, in the background, ms", "0.5"),
    ("many_graphs_build_s", "the pieces of 64 graphs of a server built, in the background, in, s", "5"),
    ("many_graphs_memory_mb", "what these pieces take of the GPU's memory, MB", ""),
    ("prediction_error_pct_no_ptx", "kernels of 20 us or more, predicted without PTX: mean error, %", "10"),
    ("stoppable_time_fraction", "part of the trainings' GPU time that can be stopped", ""),
    ("train_steps_identical", "of 200 steps, stopped 60 times a second: losses equal bit by bit", "200"),
    ("torch_memory_overhead_pct", "GPU memory more, %", "1"),
    ("torch_import_overhead_pct", "`import torch` longer, %", "3"),
    ("ffs_share_pct", "two equal trainings, shares 2:1: that of the heavier, %", "63.7 to 69.7"),
    ("ffs_sum_ratio", "both together, of one alone", "0.97"),
    ("three_alone_p50_us", "server of priority 10, beside nobody: p50, us", ""),
    ("three_first_p50_us", "beside a server of priority 5 and a training: p50, us", ""),
    ("three_first_p99_us", "p99, us", ""),
    ("three_second_p50_us", "server of priority 5: p50, us", ""),
    ("three_second_p99_us", "p99, us", ""),
    ("three_train_ratio", "the training, of its speed alone", "")]


def us(value):
    return "-" if value is None else f"{value:,.0f}"


def origin(result, metric):
    return result_file.origin_of(result.get("measured", {}).get(metric, {}))


def pairs(found):
    """A row of p50, p99 and training for each pair and GPU; `found`: [(GPU, real_pytorch.json)]."""
    rows = []
    for gpu, result in found:
        metrics = result["metrics"]
        for pair, what in PAIRS:
            if f"{pair}_plain_p50_us" not in metrics:
                continue
            head = f"{what} ({gpu}, {origin(result, pair + '_plain_p50_us')})"
            for share in (50, 99):
                rows.append([f"{head}: p{share}, us" if share == 50 else f"p{share}, us",
                             *(us(metrics.get(f"{pair}_{way}_p{share}_us")) for way, _ in WAYS)])
            ratios = [metrics.get(f"{pair}_{way}_train_ratio") for way, _ in WAYS[1:]]
            rows.append(["training, of its speed alone", "1", *("-" if one is None else f"{one:.3f}" for one in ratios)])
    return table(["", *(text for _, text in WAYS)], rows)


def single(found):
    rows = []
    for metric, what, goal in SINGLE:
        values = [result["metrics"].get(metric) for _, result in found]
        if any(value is not None for value in values):
            rows.append([what, goal, *("-" if value is None else f"{value:,g}" for value in values),
                         *(origin(result, metric) for _, result in found)])
    return table(["", "goal", *(gpu for gpu, _ in found), *(f"measured ({gpu})" for gpu, _ in found)], rows)
