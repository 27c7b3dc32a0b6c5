// What the test asks of the page, in the browser. An expression: an object of functions.
({
  /// Texts that are seen, each {text, element, boxes: [left, top, right, bottom] on the page}.
  texts() {
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = [];
    for (let node = walker.nextNode(); node !== null; node = walker.nextNode()) {
      if (node.data.trim() === "" || ["SCRIPT", "NOSCRIPT"].includes(node.parentElement.tagName)) continue;
      const range = document.createRange();
      range.selectNodeContents(node);
      const boxes = [...range.getClientRects()].filter((box) => box.width > 0)
        .map((box) => [box.left + scrollX, box.top + scrollY, box.right + scrollX, box.bottom + scrollY]);
      if (boxes.length !== 0) found.push({ text: node.data.trim(), element: node.parentElement, boxes });
    }
    return found;
  },

  /// Pairs of texts that lie on each other by more than a pixel, on the page and on the canvas.
  overlaps() {
    const all = this.texts().flatMap(({ text, boxes }) => boxes.map((box) => ({ text, box })));
    const drawn = cupolaReport.timeline.texts.map((box, i) => ({ text: `text ${i} of the timeline`, box }));
    const found = [];
    for (const group of [all, drawn]) {
      group.forEach((a, i) => group.slice(i + 1).forEach((b) => {
        const width = Math.min(a.box[2], b.box[2]) - Math.max(a.box[0], b.box[0]);
        const height = Math.min(a.box[3], b.box[3]) - Math.max(a.box[1], b.box[1]);
        if (width > 1 && height > 3) found.push(`${a.text} / ${b.text}`);
      }));
    }
    return found;
  },

  /// The relative luminance of a CSS colour (WCAG 2.2), which must be opaque.
  luminance(color) {
    const context = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
    context.fillStyle = color;
    context.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...context.getImageData(0, 0, 1, 1).data].slice(0, 3).map((value) => {
      const part = value / 255;
      return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
    });
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  },

  contrast(a, b) {
    const [dark, light] = [this.luminance(a), this.luminance(b)].sort((x, y) => x - y);
    return (light + 0.05) / (dark + 0.05);
  },

  background(element) {
    for (let at = element; at !== null; at = at.parentElement) {
      const color = getComputedStyle(at).backgroundColor;
      if (color !== "rgba(0, 0, 0, 0)") return color;
    }
    return "white";
  },

  /// Texts with a contrast below 4.5, and colours of bars that a name stands on or that stand on the page.
  faint() {
    const found = [];
    for (const { text, element } of this.texts()) {
      const style = getComputedStyle(element);
      const color = element instanceof SVGElement ? style.fill : style.color;
      const ratio = this.contrast(color, this.background(element));
      if (ratio < 4.5) found.push(`${text}: ${ratio.toFixed(2)}`);
    }
    const page = cssColor("--page");
    for (const { key } of WAYS) {
      const ratio = this.contrast(cssColor(`--way-${key}`), page);
      if (ratio < 4.5) found.push(`a name in a bar of ${key}: ${ratio.toFixed(2)}`);
    }
    for (const { key } of PHASES) {
      const ratio = this.contrast(cssColor(`--phase-${key}`), page);
      if (ratio < 3) found.push(`the band of ${key}: ${ratio.toFixed(2)}`);
    }
    return found;
  },

  /// The number of colours on the canvas of the timeline.
  canvasColors() {
    const { width, height } = cupolaReport.timeline.bars;
    const context = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
    context.drawImage(cupolaReport.timeline.bars, 0, 0);
    const pixels = new Uint32Array(context.getImageData(0, 0, width, height).data.buffer);
    return new Set(pixels).size;
  },

  /// Sums of the shares of each bin, at most.
  mostShared() {
    return Math.max(...cupolaReport.data.shares.flatMap((one) => one.parts.map((bin) => sum(bin))));
  },

  overflow() {
    return document.documentElement.scrollWidth - window.innerWidth;
  },
})
