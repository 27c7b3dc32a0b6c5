// Makes elements of the page.

/// element("td", {class: "number"}, "3"): an element with attributes and children, texts or elements.
function element(name, attributes, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) {
    if (key === "style") made.style.cssText = value;
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

function svgElement(name, attributes, text) {
  const made = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes || {})) made.setAttribute(key, value);
  if (text !== undefined) made.textContent = text;
  return made;
}

/// A table. `columns`: {title, number: right-aligned, name: a long text}. `rows`: arrays of texts or elements.
function table(caption, columns, rows) {
  const kind = (column) => (column.number ? { class: "number" } : column.name ? { class: "name" } : {});
  const head = element("tr", {}, ...columns.map((one) => element("th", { ...kind(one), scope: "col" }, one.title)));
  const body = rows.map((row) => element("tr", {}, ...row.map((cell, i) => element("td", kind(columns[i]), cell))));
  return element("div", {}, element("p", { class: "muted" }, caption),
    element("div", { class: "table", tabindex: "0", role: "region", "aria-label": caption },
      element("table", { "aria-label": caption }, element("thead", {}, head), element("tbody", {}, ...body))));
}

/// A list of colours with their meanings: {color: name of a CSS variable, text, thin}.
function fillLegend(list, entries) {
  list.replaceChildren(...entries.map(({ color, text, thin }) => element("li", {},
    element("span", { class: thin ? "swatch thin" : "swatch", style: `background: var(${color})` }), text)));
}

function cssColor(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}
