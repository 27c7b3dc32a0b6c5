// Fills the page when it has been loaded. `cupolaReport` is for those who look at the page by a script.

/// The part of all kernels' time that went by the ways (a test of a way's key); nothing where no time is known.
function coveredPart(data, fits) {
  const total = sum(data.coverage.map((one) => sum(one.gpu)));
  const part = sum(data.coverage.map((one) => sum(one.gpu.filter((_, way) => fits(WAYS[way].key)))));
  return total === 0 ? "-" : percent(part / total);
}

function fillSummary(data) {
  const waited = sum(data.waits.filter((wait) => wait.holder >= 0).map((wait) => wait.total));
  const cards = [
    ["time shown", duration(data.span)], ["programs", count(data.processes.length)],
    ["launches", count(data.launches.count)], ["waited for others", duration(waited)],
    ["of kernel time, could be stopped midway", coveredPart(data, (way) => way === "preemptible" || way === "sliced")],
    ["of kernel time, could only be kept from starting", coveredPart(data, (way) => way === "gated" || way === "graph")],
  ];
  document.getElementById("summary").replaceChildren(...cards.map(([title, value]) =>
    element("div", {}, element("dt", {}, title), element("dd", {}, value))));
}

function fillLegends(data) {
  const used = new Set(data.launches.way);
  const entries = WAYS.map((way, index) => ({ index, color: `--way-${way.key}`, text: `${way.label}: ${way.text}` }))
    .filter(({ index }) => used.has(index));
  const phases = new Set(data.phases.map((phase) => phase[2]));
  PHASES.forEach((phase, index) => {
    if (phases.has(index)) {
      entries.push({ color: `--phase-${phase.key}`, text: `the program ${phase.key === "leaves" ? "is " : ""}${phase.label}`,
        thin: phase.key === "waits" });
    }
  });
  fillLegend(document.getElementById("ways"), entries);
}

function fillPage() {
  const data = readData();
  const place = (id) => document.getElementById(id);
  place("files").textContent = `From ${data.files.join(", ")}`;
  place("notes").replaceChildren(...data.notes.map((note) => element("li", {}, note)));
  fillSummary(data);
  fillLegends(data);
  const timeline = new Timeline(data);
  listenToTimeline(timeline);
  timeline.draw();
  showWaits(data, place("waits"));
  showShares(data, place("shares"));
  showCoverage(data, place("coverage"));
  showKernels(data, place("kernels"));
  return { data, timeline };
}

window.cupolaReport = fillPage();
