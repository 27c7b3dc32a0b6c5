// Reads the data of the page. Times in it are nanoseconds from the beginning of the page's span.
//   files, notes       texts
//   span               length of the time axis
//   processes          {pid, name, path, arbiter}
//   rows               {process, label}: streams
//   launches           per_row: how many of each row, one row behind the other; and for each launch
//                        start       since the start before it in its row, or since 0
//                        duration    from start to end
//                        after_call  from the program's call to the start
//                        name        index into `names`
//                        way, timed  one digit each: index into WAYS; 1 = timed on the device
//   phases             [process, gpu, index into PHASES, start, duration]
//   shares             of each GPU: {gpu, bin: its length, parts: [bin][process]}
//   waits              {waiter, holder (-1: nobody), total, longest, times}
//   coverage           {process, launches: by way, gpu: time by way}
//   kernels            {name, way, launches, timed, total, longest}; all_kernels: how many there are
const WAYS = [
  { key: "preemptible", label: "preemptible", text: "can be stopped between blocks" },
  { key: "sliced", label: "sliced", text: "can be stopped between slices" },
  { key: "gated", label: "gated", text: "can be kept from starting" },
  { key: "plain", label: "plain", text: "as it came, with nothing to stop it" },
  { key: "graph", label: "graph", text: "a graph; can be kept from starting at a gate" },
  { key: "captured", label: "captured", text: "recorded into a graph; nothing ran" },
  { key: "failed", label: "failed", text: "refused by the driver; nothing ran" },
  { key: "unknown", label: "unknown", text: "recorded without device times" },
];
const PHASES = [
  { key: "waits", label: "waits" },
  { key: "runs", label: "runs" },
  { key: "leaves", label: "asked to leave" },
];

/// The data with arrays of numbers for the launches: start, end, afterCall, name, way, timed, row; and `first`, by row:
/// the index of the row's first launch (one more entry at the end).
function readData() {
  const data = JSON.parse(document.getElementById("data").textContent);
  const packed = data.launches, count = packed.start.length;
  const launches = {
    count, start: new Float64Array(count), end: new Float64Array(count), afterCall: Float64Array.from(packed.after_call),
    name: Uint32Array.from(packed.name), way: new Uint8Array(count), timed: new Uint8Array(count),
    row: new Uint32Array(count), first: [0],
  };
  let at = 0;
  packed.per_row.forEach((inRow, row) => {
    let time = 0;
    for (const end = at + inRow; at < end; ++at) {
      time += packed.start[at];
      launches.start[at] = time;
      launches.end[at] = time + packed.duration[at];
      launches.way[at] = packed.way.charCodeAt(at) - 48;
      launches.timed[at] = packed.timed.charCodeAt(at) - 48;
      launches.row[at] = row;
    }
    launches.first.push(at);
  });
  data.launches = launches;
  return data;
}

const UNITS = [[1e9, "s"], [1e6, "ms"], [1e3, "\u00b5s"], [1, "ns"]];

/// A duration with its unit: "1.25 ms".
function duration(ns) {
  const [size, unit] = UNITS.find(([size]) => Math.abs(ns) >= size) || UNITS[3];
  const value = ns / size;
  return `${size === 1 ? Math.round(value) : value.toFixed(Math.abs(value) >= 100 ? 0 : Math.abs(value) >= 10 ? 1 : 2)} ${unit}`;
}

/// A part of 1 in percent. What is not nothing is not "0 %".
function percent(part) {
  if (part > 0 && part < 0.001) return "< 0.1 %";
  return `${(100 * part).toFixed(1)} %`;
}

function count(number) {
  return number.toLocaleString("en");
}

function processName(data, index) {
  if (index < 0) return "nobody (the GPU changed over)";
  const process = data.processes[index];
  return `${process.name || "?"} (${process.pid})`;
}

function sum(numbers) {
  return numbers.reduce((total, number) => total + number, 0);
}
