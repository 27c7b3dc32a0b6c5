// Buttons, keys and mouse of the timeline, and the text about the launch that is picked.

function describeLaunch(data, launch) {
  if (launch < 0) return "No launch is picked.";
  const { start, end, afterCall, name, way, timed, row } = data.launches;
  const kind = WAYS[way[launch]];
  const where = `${processName(data, data.rows[row[launch]].process)}, ${data.rows[row[launch]].label}`;
  const took = timed[launch] ? duration(end[launch] - start[launch]) : `${duration(end[launch] - start[launch])} of the call`;
  const begun = timed[launch] ? `, ${duration(afterCall[launch])} after the call` : "";
  return `${data.names[name[launch]]}: ${took}, at ${duration(start[launch])}${begun}; ${kind.label} (${kind.text}); ${where}`;
}

/// Moves the picked row by `step` places, and picks the launch there that is nearest to the middle.
function pickRow(timeline, step) {
  const at = timeline.order.indexOf(timeline.row);
  const row = timeline.order[Math.min(Math.max(at + step, 0), timeline.order.length - 1)];
  if (row === undefined) return;
  timeline.row = row;
  const { first } = timeline.data.launches;
  const launch = timeline.firstAfter(row, (timeline.from + timeline.to) / 2);
  timeline.pick(Math.min(launch, first[row + 1] - 1));
}

function pickNext(timeline, step) {
  if (timeline.row < 0) return;
  const { first } = timeline.data.launches;
  const low = first[timeline.row], high = first[timeline.row + 1] - 1;
  const launch = timeline.picked < 0 ? timeline.firstAfter(timeline.row, timeline.from) : timeline.picked + step;
  timeline.pick(Math.min(Math.max(launch, low), high));
}

const TIMELINE_KEYS = {
  "+": (timeline) => timeline.zoom(0.5),
  "=": (timeline) => timeline.zoom(0.5),
  "-": (timeline) => timeline.zoom(2),
  "0": (timeline) => timeline.show(0, timeline.data.span),
  Home: (timeline) => timeline.show(0, timeline.data.span),
  ArrowLeft: (timeline) => timeline.move(-0.2),
  ArrowRight: (timeline) => timeline.move(0.2),
  ArrowUp: (timeline) => pickRow(timeline, -1),
  ArrowDown: (timeline) => pickRow(timeline, 1),
  n: (timeline) => pickNext(timeline, 1),
  p: (timeline) => pickNext(timeline, -1),
  Escape: (timeline) => timeline.pick(-1),
};

function listenToButtons(timeline) {
  const actions = {
    in: () => timeline.zoom(0.5), out: () => timeline.zoom(2), left: () => timeline.move(-0.5),
    right: () => timeline.move(0.5), all: () => timeline.show(0, timeline.data.span),
  };
  for (const button of document.querySelectorAll("button[data-do]")) {
    button.addEventListener("click", actions[button.dataset.do]);
  }
}

function listenToPointer(timeline) {
  const { box } = timeline;
  let dragged = null;  // {x, from, to} where a drag began, and whether it has moved
  const point = (event) => {
    const place = timeline.bars.getBoundingClientRect();
    return [event.clientX - place.left, event.clientY - place.top];
  };
  box.addEventListener("pointerdown", (event) => {
    dragged = { x: event.clientX, from: timeline.from, to: timeline.to, moved: false };
  });
  box.addEventListener("pointermove", (event) => {
    if (dragged === null || event.buttons === 0) return;
    const shift = event.clientX - dragged.x;
    dragged.moved = dragged.moved || Math.abs(shift) > 4;
    if (!dragged.moved) return;
    const time = (shift / timeline.width) * (dragged.to - dragged.from);
    timeline.show(dragged.from - time, dragged.to - time);
  });
  box.addEventListener("pointerup", (event) => {
    if (dragged !== null && !dragged.moved) timeline.pick(timeline.launchAt(...point(event)));
    dragged = null;
  });
  box.addEventListener("wheel", (event) => {
    if (!event.ctrlKey) return;
    event.preventDefault();
    timeline.zoom(event.deltaY > 0 ? 1.25 : 0.8, point(event)[0] / timeline.width);
  }, { passive: false });
}

function listenToTimeline(timeline) {
  const picked = document.getElementById("picked");
  timeline.whenPicked = () => { picked.textContent = describeLaunch(timeline.data, timeline.picked); };
  listenToButtons(timeline);
  listenToPointer(timeline);
  timeline.box.addEventListener("keydown", (event) => {
    const action = TIMELINE_KEYS[event.key];
    if (action === undefined || event.ctrlKey || event.altKey || event.metaKey) return;
    event.preventDefault();
    action(timeline);
  });
  timeline.box.addEventListener("scroll", () => timeline.draw());
  new ResizeObserver(() => timeline.draw()).observe(timeline.box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => timeline.draw());
}
