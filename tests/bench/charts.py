"""Charts of measured figures. What a chart shows is data (Bars, Lines, Panels, Timeline), which anybody can make and
look at; matplotlib draws it, where it is installed: `scripts/bootstrap --plots` puts it into .toolchain/plots.

The same data gives the same file, byte by byte, with the version of matplotlib that plots_requirements.txt names. The
colours are those of Okabe and Ito ("Color Universal Design", 2008), which people who do not see all colours can tell
apart; lines also differ in their markers. Not for several threads: matplotlib's settings belong to the process."""
import dataclasses
import io
import math
import os
import re
import sys
import textwrap

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PLOTS = os.path.join(ROOT, ".toolchain/plots")
HOW_TO_GET_IT = "charts need matplotlib: scripts/bootstrap --plots installs it"

COLOURS = ["#0072b2", "#e69f00", "#009e73", "#cc79a7", "#56b4e9", "#d55e00", "#000000", "#999999"]
MARKERS = "osD^vPX*"
TEXT, GRID = "#333333", "#dddddd"
STYLE = {"svg.hashsalt": "cupola", "svg.fonttype": "none", "font.family": ["DejaVu Sans", "sans-serif"],
         "font.size": 9, "axes.titlesize": 11, "axes.titleweight": "bold", "axes.edgecolor": TEXT,
         "axes.labelcolor": TEXT, "text.color": TEXT, "xtick.color": TEXT, "ytick.color": TEXT,
         "axes.grid": True, "axes.axisbelow": True, "grid.color": GRID, "grid.linewidth": 0.6,
         "axes.spines.top": False, "axes.spines.right": False, "legend.frameon": False,
         "lines.linewidth": 1.6, "lines.markersize": 4.5, "path.simplify": False}


@dataclasses.dataclass
class Bars:
    """Bars in groups. `series`: {name: [value of each label, or None]}; `unit` and `across` are the axes' names.
    `reference`: (value, what it means), a line across. `is_log`: bars begin at 1, on a logarithmic axis."""
    title: str
    unit: str
    across: str
    labels: list
    series: dict
    reference: tuple = None
    is_log: bool = False


@dataclasses.dataclass
class Lines:
    """`series`: {name: [(x, y), ...]}; `spread`: {name: [(low, high) of each point]} is drawn as a band.
    `is_from_zero`: whether the y axis has to show zero."""
    title: str
    unit: str
    across: str
    series: dict
    spread: dict = None
    reference: tuple = None
    is_from_zero: bool = True


@dataclasses.dataclass
class Panels:
    """Small charts of lines side by side that share their axes, both logarithmic. `panels`: {title of one: series}."""
    title: str
    unit: str
    across: str
    panels: dict


@dataclasses.dataclass
class Timeline:
    """What ran when: `rows` is [(name, [(start, end), ...], number of its colour)], microseconds."""
    title: str
    rows: list
    least_us: float
    most_us: float


def has_matplotlib():
    """Whether charts can be drawn on this machine."""
    if os.path.isdir(PLOTS) and PLOTS not in sys.path:
        sys.path.insert(0, PLOTS)
    try:
        import matplotlib  # noqa: F401
    except ImportError:
        return False
    return True


def draw(chart, path):
    """Draws a chart into an SVG file, or a PNG where its name ends so. RuntimeError where there is no matplotlib."""
    if not has_matplotlib():
        raise RuntimeError(HOW_TO_GET_IT)
    import matplotlib
    with matplotlib.rc_context({**matplotlib.rcParamsDefault, **STYLE, "backend": "agg"}):
        figure = _FIGURES[type(chart)](chart)
        if path.endswith(".png"):
            figure.savefig(path, dpi=110)
            return
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    with open(path, "w", encoding="utf-8") as file:
        file.write(re.sub(r" *\n(?=[LCQz] ?)", " ", text.getvalue()))  # a path on a line, not a point


def draw_all(charts, folder):
    """Draws {name of a file: chart} into a folder; files of that kind there that are no longer made go."""
    os.makedirs(folder, exist_ok=True)
    for name in os.listdir(folder):
        if name.endswith(".svg") and name not in charts:
            os.unlink(os.path.join(folder, name))
    for name, chart in charts.items():
        draw(chart, os.path.join(folder, name))


def _figure(width, height, title):
    from matplotlib.figure import Figure
    figure = Figure(figsize=(width, height), layout="constrained", facecolor="white")
    figure.suptitle("\n".join(textwrap.wrap(title, int(10 * width))), fontsize=11, fontweight="bold")
    return figure


def _legend(figure, axes, reference=None):
    """Below the axes, where there is more to tell apart than one series."""
    handles, names = axes.get_legend_handles_labels()
    if len(names) > 1:
        last = names.index(reference[1]) if reference else len(names) - 1
        order = [*range(last), *range(last + 1, len(names)), last]
        figure.legend([handles[at] for at in order], [names[at] for at in order], loc="outside lower center",
                      ncols=len(names) if len(names) <= 5 else math.ceil(len(names) / 2))


def _mark(axes, reference):
    if reference:
        axes.axhline(reference[0], color=TEXT, linewidth=1, linestyle="--", label=reference[1], zorder=1.5)


def _plain_numbers(axis):
    """The ticks of a logarithmic axis as people write numbers."""
    from matplotlib.ticker import FuncFormatter, NullFormatter
    axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.10g}"))
    axis.set_minor_formatter(NullFormatter())


def _log_y(axes, least, most):
    """A logarithmic axis with ticks at 1, 2, 5, 10...: fewer where it reaches far."""
    from matplotlib.ticker import LogLocator
    axes.set_yscale("log")
    axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if most / least < 1000 else (1,)))
    _plain_numbers(axes.yaxis)
    axes.yaxis.minorticks_off()
    axes.set_ylim(least / 1.15, most * 1.15)


def _draw_bars(chart):
    count, across = len(chart.labels), len(chart.series)
    width = max(7.4, min(11.5, 1.6 + count * (0.13 * across + 0.15)))
    figure = _figure(width, 4.0 if width < 9 else 4.6, chart.title)
    axes = figure.subplots()
    base, width = (1 if chart.is_log else 0), 0.8 / across
    for number, (name, values) in enumerate(chart.series.items()):
        known = [(at, value) for at, value in enumerate(values) if value is not None]
        axes.bar([at + width * (number - (across - 1) / 2) for at, _ in known], [value - base for _, value in known],
                 width * 0.92, bottom=base, color=COLOURS[number % len(COLOURS)], label=name)
    if chart.is_log:
        every = [value for values in chart.series.values() for value in values if value] + [1]
        _log_y(axes, min(every), max(every))
    else:
        axes.axhline(0, color=TEXT, linewidth=0.8)
    _mark(axes, chart.reference)
    axes.grid(visible=False, axis="x")
    is_tight = max(map(len, chart.labels), default=0) * count > 60
    axes.set_xticks(range(count), chart.labels, rotation=55 if is_tight else 0, ha="right" if is_tight else "center",
                    rotation_mode="anchor")
    axes.set_xlim(-0.6, count - 0.4)
    axes.set_ylabel(chart.unit)
    axes.set_xlabel(chart.across)
    _legend(figure, axes, chart.reference)
    return figure


def _draw_series(axes, series, spread):
    for number, (name, points) in enumerate(series.items()):
        xs, ys = zip(*points)
        colour = COLOURS[number % len(COLOURS)]
        axes.plot(xs, ys, color=colour, marker=MARKERS[number % len(MARKERS)], label=name)
        if name in spread:
            low, high = zip(*spread[name])
            axes.fill_between(xs, low, high, color=colour, alpha=0.2, linewidth=0)


def _log_x(axes, series):
    from matplotlib.ticker import FixedLocator
    axes.set_xscale("log", base=2)
    xs = sorted({x for points in series for x, _ in points})
    # Ticks where most points are: others would stand in their way.
    axes.xaxis.set_major_locator(FixedLocator([x for x in xs if math.log2(x).is_integer()] or xs))
    _plain_numbers(axes.xaxis)
    axes.xaxis.minorticks_off()


def _draw_lines(chart):
    figure = _figure(7.4, 4.0, chart.title)
    axes = figure.subplots()
    _draw_series(axes, chart.series, chart.spread or {})
    _mark(axes, chart.reference)
    ys = [y for points in chart.series.values() for _, y in points]
    if chart.is_from_zero:
        axes.set_ylim(bottom=min(0, *ys))
    axes.set_ylabel(chart.unit)
    axes.set_xlabel(chart.across)
    _legend(figure, axes, chart.reference)
    return figure


def _draw_panels(chart):
    columns = min(3, len(chart.panels))
    rows = math.ceil(len(chart.panels) / columns)
    figure = _figure(max(7.4, 3.1 * columns), 1.3 + 2.0 * rows, chart.title)
    grid = figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False)
    series = [points for panel in chart.panels.values() for points in panel.values()]
    ys = [y for points in series for _, y in points]
    # In all panels in the same order, and so in the same colours.
    names = list(dict.fromkeys(name for panel in chart.panels.values() for name in panel))
    for axes, (title, panel) in zip(grid.flat, chart.panels.items()):
        _draw_series(axes, {name: panel[name] for name in names if name in panel}, {})
        axes.set_title(title)
        axes.tick_params(labelbottom=True)
        axes.tick_params(axis="x", labelsize=7.5)
    for axes in grid.flat[len(chart.panels):]:
        axes.set_visible(False)
    _log_x(grid.flat[0], series)
    _log_y(grid.flat[0], min(ys), max(ys))
    for axes in grid[:, 0]:
        axes.set_ylabel(chart.unit)
    for axes in grid.flat[max(0, len(chart.panels) - columns):len(chart.panels)]:
        axes.set_xlabel(chart.across)
    _legend(figure, grid.flat[0])
    return figure


def _draw_timeline(chart):
    """Each row is a collection whose id in an SVG is the row's name; ends are cut to what is shown."""
    figure = _figure(8.6, 0.9 + 0.5 * len(chart.rows), chart.title)
    axes = figure.subplots()
    least_ms, most_ms = chart.least_us / 1000, chart.most_us / 1000
    thinnest = (most_ms - least_ms) / 1000  # what is shorter would not be seen
    for number, (name, pieces, colour) in enumerate(chart.rows):
        shown = [(max(start / 1000, least_ms), min(end / 1000, most_ms)) for start, end in pieces
                 if end > chart.least_us and start < chart.most_us]
        axes.broken_barh([(start, max(thinnest, end - start)) for start, end in shown], (number - 0.32, 0.64),
                         color=COLOURS[colour], linewidth=0, gid=name)
    axes.set_yticks(range(len(chart.rows)), [name for name, *_ in chart.rows])
    axes.set_ylim(len(chart.rows) - 0.5, -0.5)
    axes.set_xlim(least_ms, most_ms)
    axes.grid(visible=False, axis="y")
    axes.set_xlabel("milliseconds from the first launch of the short kernel")
    return figure


_FIGURES = {Bars: _draw_bars, Lines: _draw_lines, Panels: _draw_panels, Timeline: _draw_timeline}
