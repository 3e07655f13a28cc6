// Bars and sparklines. Their figures are also in words beside them.

import { el, setAttribute, setText, show } from "./dom.js";

const svg = "http://www.w3.org/2000/svg";
const hour = 3600_000;
const buckets = 120; // of a sparkline: half a minute each

// sparkline is a line over the last hour with a caption: { root, update(caption, points, top) }.
// A point is [time, value]; what is not known leaves a gap.
export function sparkline(name) {
  const shape = (tag, attributes) => {
    const node = document.createElementNS(svg, tag);
    for (const [key, text] of Object.entries(attributes)) setAttribute(node, key, text);
    return node;
  };
  const line = shape("path", { class: "line" }), area = shape("path", { class: "area" });
  const picture = shape("svg", { viewBox: `0 0 ${buckets} 30`, preserveAspectRatio: "none", "aria-hidden": "true" });
  picture.append(area, line);
  const value = el("b");
  const root = el("figure", { class: "spark" }, el("figcaption", {}, el("span", {}, name), " ", value), picture);
  return {
    root,
    update(caption, points, top, now) {
      setText(value, caption);
      const [drawn, filled] = paths(points, top, now);
      setAttribute(line, "d", drawn);
      setAttribute(area, "d", filled);
    },
  };
}

function paths(points, top, now) {
  const sums = new Float64Array(buckets), counts = new Uint32Array(buckets);
  for (const [time, value] of points) {
    const i = buckets - 1 - Math.floor(((now - time) / hour) * buckets);
    if (i < 0 || i >= buckets || value === undefined) continue;
    sums[i] += value;
    counts[i]++;
  }
  const most = top ?? Math.max(1, ...sums.map((sum, i) => (counts[i] ? sum / counts[i] : 0)));
  let line = "", area = "", last = -1, first = -1;
  const close = () => { if (last >= 0) area += `L${last} 30L${first} 30Z`; };
  for (let i = 0; i < buckets; i++) {
    if (!counts[i]) continue;
    const y = (29 - (28 * Math.min(most, sums[i] / counts[i])) / most).toFixed(1);
    const gap = last < 0 || i - last > 4;
    if (gap) {
      close();
      first = i;
    }
    line += `${gap ? "M" : "L"}${i} ${y}${gap ? "h.01" : ""}`;
    area += `${gap ? `M${i} 30L` : "L"}${i} ${y}`;
    last = i;
  }
  close();
  return [line, area];
}

// bar is a bar with a text above it. Without a fraction there is only the text.
export function bar() {
  const text = el("span", { class: "text" });
  const fill = el("span", { class: "fill" });
  const track = el("span", { class: "track", "aria-hidden": "true" }, fill);
  const root = el("div", { class: "bar" }, text, track);
  return {
    root,
    update(words, fraction, kind = "") {
      setText(text, words);
      setAttribute(root, "class", `bar ${kind}`.trim());
      show(track, fraction !== undefined);
      if (fraction === undefined) return;
      const width = `${(100 * Math.min(1, Math.max(0, fraction))).toFixed(1)}%`;
      if (fill.style.width !== width) fill.style.width = width;
    },
  };
}
