// The timeline: draws the launches of all streams on a canvas, as much as the window shows. Lines lie one below the
// other: a title for each process, a band with what it did, and for each stream a label with a bar for each launch
// below. Texts have lines of their own, so that none lies on another. timeline_input.js moves it.
const TITLE_HEIGHT = 24, BAND_HEIGHT = 16, LABEL_HEIGHT = 17, BAR_HEIGHT = 18, BAR_LINE = 24, AXIS_HEIGHT = 22;
const LEAST_SPAN = 100;      // ns that the axis shows at least
const LEAST_TICK = 96;       // pixels between two labels of the axis
const LEAST_NAMED_BAR = 48;  // pixels of a bar with its kernel's name in it
const FONT = '12px system-ui, "DejaVu Sans", sans-serif';

class Timeline {
  constructor(data) {
    this.data = data;
    this.box = document.getElementById("rows");
    this.bars = document.getElementById("bars");
    this.axis = document.getElementById("axis");
    this.spacer = element("div");
    this.box.append(this.spacer);
    this.from = 0;
    this.to = data.span;
    this.picked = -1;  // index of a launch; -1: none
    this.row = 0;      // index of the row in which launches are picked
    this.layOut();
    this.whenPicked = () => {};
  }

  /// Fills `lines`, {y, kind, process, row}, and `barTop`, by row.
  layOut() {
    const { processes, rows, phases } = this.data;
    this.lines = [];
    this.barTop = new Map();
    this.order = [];  // rows from top to bottom
    this.phasesOf = processes.map((_, index) => phases.filter((phase) => phase[0] === index));
    let y = 4;
    processes.forEach((_, process) => {
      const own = rows.map((_, row) => row).filter((row) => rows[row].process === process);
      if (own.length === 0 && this.phasesOf[process].length === 0) return;
      this.lines.push({ y, kind: "title", process });
      y += TITLE_HEIGHT;
      if (this.phasesOf[process].length !== 0) {
        this.lines.push({ y, kind: "band", process });
        y += BAND_HEIGHT;
      }
      for (const row of own) {
        this.lines.push({ y, kind: "label", process, row });
        this.barTop.set(row, y + LABEL_HEIGHT);
        this.order.push(row);
        y += LABEL_HEIGHT + BAR_LINE;
      }
      y += 8;
    });
    this.height = y;
    this.row = this.order.length === 0 ? -1 : this.order[0];
  }

  show(from, to) {
    const span = Math.min(Math.max(to - from, LEAST_SPAN), this.data.span);
    const begin = Math.min(Math.max(from, 0), this.data.span - span);
    this.from = begin;
    this.to = begin + span;
    this.draw();
  }

  /// Zooms by the factor about `at`, a part of the width.
  zoom(factor, at = 0.5) {
    const span = (this.to - this.from) * factor;
    const middle = this.from + (this.to - this.from) * at;
    this.show(middle - span * at, middle + span * (1 - at));
  }

  move(part) {
    const step = (this.to - this.from) * part;
    this.show(this.from + step, this.to + step);
  }

  /// Picks a launch and brings it into view; -1 picks none.
  pick(launch) {
    this.picked = launch;
    if (launch >= 0) {
      const { start, end, row } = this.data.launches;
      this.row = row[launch];
      if (end[launch] < this.from || start[launch] > this.to) {
        const span = this.to - this.from;
        const middle = (start[launch] + end[launch]) / 2;
        this.from = Math.min(Math.max(middle - span / 2, 0), this.data.span - span);
        this.to = this.from + span;
      }
    }
    this.bringRowIntoView();
    this.draw();
    this.whenPicked();
  }

  bringRowIntoView() {
    const top = this.barTop.get(this.row);
    if (top === undefined) return;
    if (top - LABEL_HEIGHT < this.box.scrollTop) this.box.scrollTop = top - LABEL_HEIGHT;
    const below = top + BAR_LINE - this.box.clientHeight;
    if (below > this.box.scrollTop) this.box.scrollTop = below;
  }

  /// The first launch of the row that ends after `time`.
  firstAfter(row, time) {
    const { first, end } = this.data.launches;
    let low = first[row], high = first[row + 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (end[middle] < time) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  x(time) {
    return ((time - this.from) / (this.to - this.from)) * this.width;
  }

  /// The launch at a point of the canvas; -1: none.
  launchAt(x, y) {
    const row = this.order.find((one) => {
      const top = this.barTop.get(one) - this.box.scrollTop;
      return y >= top && y < top + BAR_HEIGHT;
    });
    if (row === undefined) return -1;
    const { first, start } = this.data.launches;
    const slack = ((this.to - this.from) / this.width) * 2;  // of two pixels
    const time = this.from + (x / this.width) * (this.to - this.from);
    const launch = this.firstAfter(row, time - slack);
    return launch < first[row + 1] && start[launch] <= time + slack ? launch : -1;
  }

  draw() {
    this.width = this.box.clientWidth;
    const height = Math.min(this.height, Math.round(window.innerHeight * 0.7));
    this.spacer.style.height = `${this.height - height}px`;
    this.colors = Object.fromEntries([...WAYS.map((way) => `--way-${way.key}`), ...PHASES.map((one) => `--phase-${one.key}`),
      "--page", "--panel", "--line", "--text", "--muted", "--focus"].map((name) => [name, cssColor(name)]));
    this.drawn = 0;   // bars drawn, for the tests: those that share a pixel count once
    this.texts = [];  // where texts are drawn: [left, top, right, bottom], for the tests
    const context = this.prepare(this.bars, height);
    this.drawGrid(context, height);
    context.save();
    context.translate(0, -this.box.scrollTop);
    for (const line of this.lines) {
      if (line.y + 60 < this.box.scrollTop || line.y > this.box.scrollTop + height) continue;
      this.drawLine(context, line);
    }
    context.restore();
    this.drawAxis();
  }

  /// Gives the canvas its size in the device's pixels, and clears it.
  prepare(canvas, height) {
    const scale = window.devicePixelRatio || 1;
    canvas.style.height = `${height}px`;
    canvas.style.width = `${this.width}px`;
    canvas.width = Math.round(this.width * scale);
    canvas.height = Math.round(height * scale);
    const context = canvas.getContext("2d");
    context.setTransform(scale, 0, 0, scale, 0, 0);
    context.fillStyle = this.colors["--page"];
    context.fillRect(0, 0, this.width, height);
    context.font = FONT;
    context.textBaseline = "middle";
    return context;
  }

  /// The times at which the axis has labels.
  ticks() {
    const least = ((this.to - this.from) / this.width) * LEAST_TICK;
    const power = 10 ** Math.floor(Math.log10(least));
    const step = [1, 2, 5, 10].map((factor) => factor * power).find((size) => size >= least);
    const times = [];
    for (let time = Math.ceil(this.from / step) * step; time <= this.to; time += step) times.push(time);
    return { step, times };
  }

  drawGrid(context, height) {
    context.fillStyle = this.colors["--line"];
    for (const time of this.ticks().times) context.fillRect(Math.round(this.x(time)), 0, 1, height);
  }

  drawAxis() {
    const context = this.prepare(this.axis, AXIS_HEIGHT);
    const { step, times } = this.ticks();
    const [size, unit] = UNITS.find(([one]) => Math.max(step, this.to / 1000) >= one) || UNITS[3];
    const digits = Math.max(0, Math.min(6, Math.ceil(-Math.log10(step / size))));
    context.fillStyle = this.colors["--muted"];
    for (const time of times) {
      const text = `${(time / size).toFixed(digits)} ${unit}`;
      const half = context.measureText(text).width / 2;
      const x = Math.min(Math.max(this.x(time), half), this.width - half);
      this.texts.push([x - half, -AXIS_HEIGHT, x + half, 0]);
      context.fillText(text, x - half, AXIS_HEIGHT / 2);
    }
  }

  drawLine(context, line) {
    if (line.kind === "title") {
      this.drawText(context, processName(this.data, line.process), line.y + TITLE_HEIGHT / 2, "--text", `bold ${FONT}`);
    } else if (line.kind === "band") {
      this.drawBand(context, line);
    } else {
      const label = this.data.rows[line.row].label + (line.row === this.row && this.picked >= 0 ? "  \u25c2 picked" : "");
      this.drawText(context, label, line.y + LABEL_HEIGHT / 2, "--muted", FONT);
      this.drawBars(context, line.row, this.barTop.get(line.row));
    }
  }

  drawText(context, text, middle, color, font) {
    context.font = font;
    context.fillStyle = this.colors["--page"];
    const width = context.measureText(text).width;
    this.texts.push([5, middle - 7, 5 + width, middle + 7]);
    context.fillRect(2, middle - 8, Math.min(width + 6, this.width - 4), 16);
    context.fillStyle = this.colors[color];
    context.fillText(text, 5, middle);
    context.font = FONT;
  }

  drawBand(context, { process, y }) {
    const heights = { waits: 4, runs: 10, leaves: 10 };
    for (const [, , phase, start, length] of this.phasesOf[process]) {
      if (start + length < this.from || start > this.to) continue;
      const { key } = PHASES[phase];
      const left = Math.max(this.x(start), 0), right = Math.min(this.x(start + length), this.width);
      context.fillStyle = this.colors[`--phase-${key}`];
      context.fillRect(left, y + (10 - heights[key]) / 2, Math.max(right - left, 1), heights[key]);
    }
  }

  drawBars(context, row, top) {
    const { first, start, end, way } = this.data.launches;
    let column = -1, columnWays = 0;  // the pixel in which the last narrow bars lie, and a bit for each way of theirs
    for (let launch = this.firstAfter(row, this.from); launch < first[row + 1]; ++launch) {
      if (start[launch] > this.to) break;
      const left = Math.max(this.x(start[launch]), 0);
      const right = Math.min(Math.max(this.x(end[launch]), left + 1), this.width);
      if (right - left <= 1) {
        if (Math.floor(left) !== column) columnWays = 0;
        column = Math.floor(left);
        if ((columnWays >> way[launch]) & 1) continue;
        columnWays |= 1 << way[launch];
      }
      context.fillStyle = this.colors[`--way-${WAYS[way[launch]].key}`];
      // A gap of a pixel keeps bars apart that are wide enough to have one.
      context.fillRect(left, top, Math.max(right - left - (right - left > 4 ? 1 : 0), 1), BAR_HEIGHT);
      this.drawn += 1;
      if (right - left >= LEAST_NAMED_BAR) this.drawName(context, launch, left, right, top);
    }
    if (this.picked >= first[row] && this.picked < first[row + 1]) this.drawPicked(context, top);
  }

  drawName(context, launch, left, right, top) {
    const room = right - left - 10;
    let text = this.data.names[this.data.launches.name[launch]];
    const width = context.measureText(text).width;
    if (width > room) text = `${text.slice(0, Math.max(Math.floor((text.length * room) / width) - 1, 0))}\u2026`;
    context.fillStyle = this.colors["--page"];
    context.fillText(text, left + 4, top + BAR_HEIGHT / 2 + 1);
  }

  drawPicked(context, top) {
    const { start, end } = this.data.launches;
    const left = this.x(start[this.picked]);
    const right = Math.max(this.x(end[this.picked]), left + 2);
    context.strokeStyle = this.colors["--text"];
    context.lineWidth = 2;
    context.strokeRect(left - 1, top - 2, right - left + 2, BAR_HEIGHT + 4);
  }
}
