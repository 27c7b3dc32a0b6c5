// The figures below the timeline: who waited for whom, shares over time, coverage, kernels.
const SHARE_COLORS = 8;      // of them the last is for all further processes together
const CHART_HEIGHT = 200, CHART_LEFT = 52, CHART_BOTTOM = 26;

function showWaits(data, place) {
  if (data.waits.length === 0) {
    place.append(element("p", {}, data.processes.length < 2
      ? "One program used the GPU, so none waited for another."
      : "No program waited for another."));
    return;
  }
  const rows = data.waits.map((wait) => [
    processName(data, wait.waiter), processName(data, wait.holder), duration(wait.total), count(wait.times),
    duration(wait.total / wait.times), duration(wait.longest), percent(wait.total / data.span)]);
  const source = data.arbiter ? "as the arbiter saw it" : "by the times of kernels; there was no arbiter's trace";
  place.append(table(`Time for which a program wanted the GPU while another one had it (${source})`, [
    { title: "waited", name: true }, { title: "for", name: true }, { title: "in all", number: true },
    { title: "times", number: true }, { title: "mean", number: true }, { title: "longest", number: true },
    { title: "of the time shown", number: true }], rows));
}

/// By process: the color's name. The processes with the largest shares have a color of their own.
function shareColors(totals) {
  const order = totals.map((_, process) => process).filter((process) => totals[process] > 0)
    .sort((a, b) => totals[b] - totals[a]);
  const own = order.length > SHARE_COLORS ? SHARE_COLORS - 1 : SHARE_COLORS;
  return new Map(order.map((process, place) => [process, `--share-${Math.min(place, own)}`]));
}

/// A stacked chart, `whole` pixels wide: the parts of each process in each bin, up to 100 %.
function shareChart(data, shares, colors, whole) {
  const bins = shares.parts.length, width = whole - CHART_LEFT, height = CHART_HEIGHT - CHART_BOTTOM - 8;
  const chart = svgElement("svg", { width: whole, height: CHART_HEIGHT, role: "img",
    "aria-label": `Shares of ${data.gpus[shares.gpu]} over time, in percent; the table below has the totals` });
  const bottom = height + 8;
  for (const part of [0, 0.5, 1]) {
    const y = bottom - part * height;
    chart.append(svgElement("line", { class: "grid", x1: CHART_LEFT, x2: whole, y1: y, y2: y }));
    chart.append(svgElement("text", { x: CHART_LEFT - 6, y: y + 4, "text-anchor": "end" }, `${part * 100} %`));
  }
  const base = new Float64Array(bins);
  for (const [process, color] of colors) {
    let path = "";
    for (let bin = 0; bin < bins; ++bin) {
      const part = shares.parts[bin][process];
      if (part === 0) continue;
      const x = CHART_LEFT + (bin / bins) * width;
      path += `M${x.toFixed(2)} ${(bottom - (base[bin] + part) * height).toFixed(2)}` +
        `h${(width / bins + 0.15).toFixed(2)}v${(part * height).toFixed(2)}h-${(width / bins + 0.15).toFixed(2)}z`;
      base[bin] += part;
    }
    chart.append(svgElement("path", { d: path, style: `fill: var(${color})` }));
  }
  for (const [part, anchor] of [[0, "start"], [0.5, "middle"], [1, "end"]]) {
    chart.append(svgElement("text", { x: CHART_LEFT + part * width, y: CHART_HEIGHT - 8, "text-anchor": anchor },
      part === 0 ? "0" : duration(part * data.span)));
  }
  return chart;
}

function showShares(data, place) {
  for (const shares of data.shares) {
    // The last bin may reach beyond the span, so a part of the time is a sum over bins by their length.
    const totals = data.processes.map((_, process) =>
      sum(shares.parts.map((bin) => bin[process])) * (shares.bin / data.span));
    const colors = shareColors(totals);
    if (data.shares.length > 1) place.append(element("h3", {}, data.gpus[shares.gpu]));
    if (colors.size === 0) {
      place.append(element("p", {}, "No program had this GPU in the time shown."));
      continue;
    }
    const legend = element("ul", { class: "legend" });
    fillLegend(legend, [...colors].map(([process, color]) => ({ color, text: processName(data, process) })));
    const chart = element("div", {});
    new ResizeObserver(() => {
      const width = chart.clientWidth;
      if (width > CHART_LEFT) chart.replaceChildren(shareChart(data, shares, colors, width));
    }).observe(chart);
    place.append(element("figure", {}, legend, chart, element("figcaption", {},
      `Part of the GPU's time that each program had, in percent, in steps of ${duration(shares.bin)}. ` +
      "Programs that had it at once count equal parts.")));
    const rows = [...colors.keys()].map((process) => [processName(data, process), percent(totals[process]),
      duration(totals[process] * data.span)]);
    rows.push(["nobody", percent(Math.max(1 - sum(totals), 0)), duration(Math.max(1 - sum(totals), 0) * data.span)]);
    place.append(table(`Shares of the ${duration(data.span)} shown`,
      [{ title: "program", name: true }, { title: "share", number: true }, { title: "time", number: true }], rows));
  }
}

function showCoverage(data, place) {
  if (data.coverage.length === 0) {
    place.append(element("p", {}, "There are no launches in the traces."));
    return;
  }
  for (const one of data.coverage) {
    const total = sum(one.gpu);
    const used = WAYS.map((_, way) => way).filter((way) => one.launches[way] !== 0);
    const parts = used.filter((way) => one.gpu[way] !== 0);
    const text = parts.map((way) => `${WAYS[way].label} ${percent(one.gpu[way] / total)}`).join(", ");
    place.append(element("h3", {}, processName(data, one.process)));
    if (total > 0) {
      place.append(element("div", { class: "bar", role: "img", "aria-label": `Time of its kernels: ${text}` },
        ...parts.map((way) => element("span", { style:
          `width: ${(100 * one.gpu[way]) / total}%; background: var(--way-${WAYS[way].key})` }))));
    }
    place.append(table("Time of its kernels on the GPU, without the time for which the program waited",
      [{ title: "way", name: true }, { title: "launches", number: true }, { title: "time", number: true },
        { title: "of its time", number: true }],
      used.map((way) => [`${WAYS[way].label}: ${WAYS[way].text}`, count(one.launches[way]),
        one.gpu[way] === 0 ? "-" : duration(one.gpu[way]), total === 0 ? "-" : percent(one.gpu[way] / total)])));
  }
}

function showKernels(data, place) {
  const more = data.all_kernels - data.kernels.length;
  place.append(table(`Kernels by their time from start to end${more > 0 ? `; ${count(more)} more are not shown` : ""}`,
    [{ title: "kernel", name: true }, { title: "way" }, { title: "launches", number: true },
      { title: "in all", number: true }, { title: "mean", number: true }, { title: "longest", number: true }],
    data.kernels.map((kernel) => [data.names[kernel.name], WAYS[kernel.way].label, count(kernel.launches),
      ...(kernel.timed === 0 ? ["-", "-", "-"]
        : [duration(kernel.total), duration(kernel.total / kernel.timed), duration(kernel.longest)])])));
}
