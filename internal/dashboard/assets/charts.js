// Bars and sparklines. Their figures are also in words beside them.

import { h } from "./dom.js";

const hour = 3600_000;
const buckets = 120; // of a sparkline: half a minute each

// sparkline is a line over the last hour with a caption, if that is known. A point is [time, value];
// what is not known leaves a gap.
export function sparkline(name, caption, points, now, top) {
  if (!caption) return false;
  const [line, area] = paths(points, top, now);
  return h("figure", { key: name, class: "spark" }, h("figcaption", {}, h("span", {}, name), " ", h("b", {}, caption)),
    h("svg", { viewBox: `0 0 ${buckets} 30`, preserveAspectRatio: "none", "aria-hidden": "true" }, h("path", { class: "area", d: area }), h("path", { class: "line", d: line })));
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
export function bar(text, fraction, urgent, key) {
  const width = `${(100 * Math.min(1, Math.max(0, fraction ?? 0))).toFixed(1)}%`;
  return h("div", { key, class: urgent ? "bar attention" : "bar" }, h("span", { class: "text" }, text),
    fraction !== undefined && h("span", { class: "track", "aria-hidden": "true" }, h("span", { class: "fill", style: { width } })));
}
