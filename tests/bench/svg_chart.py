"""Small charts as SVG text: grouped bars and lines. Pure functions, standard library only. Colours
are readable on light and dark pages."""
import html
import math

COLOURS = ["#3b82c4", "#e0803a", "#4ca64c", "#b15fb5", "#8c8c8c", "#c0504d"]
TEXT = "#707070"
HEIGHT, TOP, BOTTOM, LEFT, RIGHT = 300, 34, 78, 58, 14


def ticks(least, most):
    """Four to eight round numbers from `least` to at least `most`."""
    span = (most - least) or 1
    step = 10 ** math.floor(math.log10(span / 4))
    while span / step > 8:
        step *= 2.5 if str(step)[0] == "2" else 2
    first = math.floor(least / step) * step
    count = math.ceil((most - first) / step - 1e-9) + 1
    return [round(first + i * step, 10) for i in range(count)]


class Canvas:
    def __init__(self, title, width, marks, unit):
        self.width, self.marks, self.parts = width, marks, []
        self.text(width / 2, 16, title, size=13, anchor="middle")
        for mark in marks:
            y = self.y(mark)
            self.line(LEFT, y, width - RIGHT, y, "#d0d0d0", 0.6)
            self.text(LEFT - 5, y + 4, f"{mark:g}", anchor="end")
        self.text(12, TOP + self.plot_height() / 2, unit, anchor="middle", turn=-90)

    def plot_height(self):
        return HEIGHT - TOP - BOTTOM

    def y(self, value):
        share = (value - self.marks[0]) / ((self.marks[-1] - self.marks[0]) or 1)
        return round(TOP + self.plot_height() * (1 - share), 2)

    def text(self, x, y, text, size=11, anchor="start", turn=0):
        turned = f' transform="rotate({turn} {x:g} {y:g})"' if turn else ""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" font-size="{size}" text-anchor="{anchor}"'
                          f'{turned}>{html.escape(text)}</text>')

    def line(self, x1, y1, x2, y2, colour, width=1.5):
        self.parts.append(f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" '
                          f'stroke="{colour}" stroke-width="{width}"/>')

    def bar(self, x, width, low, high, colour):
        top, bottom = sorted((self.y(low), self.y(high)))
        self.parts.append(f'<rect x="{x:g}" y="{top:g}" width="{width:g}" '
                          f'height="{max(0.4, bottom - top):g}" fill="{colour}"/>')

    def legend(self, names):
        x = LEFT
        for name, colour in zip(names, COLOURS):
            self.parts.append(f'<rect x="{x}" y="{HEIGHT - 14}" width="9" height="9" '
                              f'fill="{colour}"/>')
            self.text(x + 13, HEIGHT - 6, name)
            x += 24 + 6.4 * len(name)

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width:g}" height="{HEIGHT}" '
                f'viewBox="0 0 {self.width:g} {HEIGHT}" font-family="sans-serif" fill="{TEXT}">\n'
                + "\n".join(self.parts) + "\n</svg>\n")


def bars(title, unit, labels, series):
    """`series` is {name: [value or None for each label]}; bars of a label stand side by side."""
    values = [value for row in series.values() for value in row if value is not None] or [0]
    slot = max(10.0 * len(series) + 8, 22)
    canvas = Canvas(title, LEFT + RIGHT + max(420, slot * len(labels)),
                    ticks(min(0, *values), max(0, *values)), unit)
    slot = (canvas.width - LEFT - RIGHT) / max(1, len(labels))
    width = (slot - 6) / max(1, len(series))
    for number, label in enumerate(labels):
        x = LEFT + slot * number + 3
        for place, row in enumerate(series.values()):
            if row[number] is not None:
                canvas.bar(x + width * place, width - 1, 0, row[number],
                           COLOURS[place % len(COLOURS)])
        canvas.text(x + slot / 2, HEIGHT - BOTTOM + 14, label, size=10, anchor="end", turn=-40)
    if len(series) > 1:
        canvas.legend(series)
    return canvas.svg()


def lines(title, unit, across, series, spread=None):
    """`series` is {name: [(x, y), ...]}; `spread` {name: [(low, high), ...]} draws error bars."""
    points = [point for row in series.values() for point in row] or [(0, 0)]
    ys = [y for _, y in points]
    xs = [x for x, _ in points]
    canvas = Canvas(title, 620, ticks(min(0, *ys), max(*ys, 0)), unit)
    most = max(xs) or 1

    def place(x):
        return round(LEFT + (canvas.width - LEFT - RIGHT) * x / most, 2)
    for mark in ticks(0, most):
        if mark <= most:
            canvas.text(place(mark), HEIGHT - BOTTOM + 14, f"{mark:g}", anchor="middle")
    canvas.text(canvas.width / 2, HEIGHT - BOTTOM + 32, across, anchor="middle")
    for number, (name, row) in enumerate(series.items()):
        colour = COLOURS[number % len(COLOURS)]
        path = " ".join(f"{place(x):g},{canvas.y(y):g}" for x, y in row)
        canvas.parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" '
                            'stroke-width="1.8"/>')
        for (x, _), (low, high) in zip(row, (spread or {}).get(name, []), strict=False):
            canvas.line(place(x), canvas.y(low), place(x), canvas.y(high), colour, 1)
    canvas.legend(series)
    return canvas.svg()


def timeline(title, rows, least_us, most_us):
    """`rows` is [(name, [(start us, end us, colour number), ...])]: what ran when."""
    width, top, step = 800, 34, 34
    height = top + step * len(rows) + 34
    parts = [f'<text x="{width / 2:g}" y="16" font-size="13" text-anchor="middle">'
             f'{html.escape(title)}</text>']
    left = 178
    span = (most_us - least_us) or 1

    def place(us):
        return left + (width - left - RIGHT) * (min(max(us, least_us), most_us) - least_us) / span
    for number, (name, pieces) in enumerate(rows):
        y = top + step * number
        parts.append(f'<text x="{left - 8}" y="{y + 17}" font-size="11" text-anchor="end">'
                     f'{html.escape(name)}</text>')
        for start, end, colour in pieces:
            if end < least_us or start > most_us:
                continue
            parts.append(f'<rect x="{place(start):.2f}" y="{y + 4}" height="20" fill="'
                         f'{COLOURS[colour % len(COLOURS)]}" width="'
                         f'{max(0.6, place(end) - place(start)):.2f}"/>')
    for mark in ticks(0, span):
        if mark <= span:
            x = place(least_us + mark)
            parts.append(f'<line x1="{x:.2f}" y1="{top}" x2="{x:.2f}" y2="{height - 30}" '
                         'stroke="#d0d0d0" stroke-width="0.6"/>')
            parts.append(f'<text x="{x:.2f}" y="{height - 16}" font-size="11" '
                         f'text-anchor="middle">{mark / 1000:g} ms</text>')
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
            f'viewBox="0 0 {width} {height}" font-family="sans-serif" fill="{TEXT}">\n'
            + "\n".join(parts) + "\n</svg>\n")
