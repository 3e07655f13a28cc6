// Past jobs as a chart: what they waited, ran, and ran idle.

import { byId, el, setText, show, sync } from "./dom.js";
import { model } from "./model.js";
import { clock, duration, hostLabel, jobState } from "./words.js";

const week = 7 * 24 * 3600_000;
const weeksShown = 12, runsShown = 100;

export function drawHistory(now) {
  if (byId("history").hidden) return;
  const runs = model.runs.map(times).filter((r) => r.at);
  show(byId("history-empty"), !runs.length);
  show(byId("legend"), runs.length > 0);
  const weeks = perWeek(runs, now);
  const most = Math.max(1, ...weeks.map(total));
  sync(byId("weeks"), runs.length ? weeks : [], (w) => w.begin, () => column(most));
  const newest = runs.slice(-runsShown).reverse();
  const longest = Math.max(1, ...newest.map(total));
  sync(byId("runs"), newest, (r) => `${r.run.host} ${r.run.job.id} ${r.at}`, () => bars(longest));
}

const total = (t) => t.waited + t.used + t.idle;

// times are the spans of a run, in milliseconds. How long a requeued job waited is not known.
function times(run) {
  const { submitted, start, end, restarts } = run.job;
  const span = (from, to) => (from && to ? Math.max(0, Date.parse(to) - Date.parse(from)) : 0);
  const ran = span(start, end);
  const idle = Math.min(ran, 1000 * (run.idle ?? 0));
  return { run, at: Date.parse(end ?? run.noted), waited: restarts ? 0 : span(submitted, start), used: ran - idle, idle };
}

// perWeek sums up the last weeks, the oldest first. A week begins on Monday.
function perWeek(runs, now) {
  const monday = new Date(now);
  monday.setHours(0, 0, 0, 0);
  monday.setDate(monday.getDate() - ((monday.getDay() + 6) % 7));
  const weeks = Array.from({ length: weeksShown }, (_, i) => {
    const begin = new Date(monday);
    begin.setDate(begin.getDate() - 7 * (weeksShown - 1 - i));
    return { begin: begin.getTime(), waited: 0, used: 0, idle: 0, jobs: 0 };
  });
  for (const r of runs) {
    const w = weeks.findLast((x) => x.begin <= r.at && r.at < x.begin + week + 3600_000);
    if (!w) continue;
    w.jobs++;
    for (const part of ["waited", "used", "idle"]) w[part] += r[part];
  }
  return weeks;
}

const words = (t) => [["waited", t.waited], ["ran", t.used + t.idle], ["idle", t.idle]].filter(([, ms]) => ms >= 1000).map(([what, ms]) => `${what} ${duration(ms)}`).join(", ");

const parts = () => ["waited", "used", "idle"].map((name) => el("span", { class: name, "aria-hidden": "true" }));

function column(most) {
  const [waited, used, idle] = parts();
  const spans = { waited, used, idle };
  const label = el("span", { class: "day", "aria-hidden": "true" });
  const hear = el("span", { class: "hear" });
  const root = el("div", { role: "listitem" }, hear, el("span", { class: "stack", "aria-hidden": "true" }, waited, idle, used), label);
  return {
    root,
    update(w) {
      const day = new Date(w.begin).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const text = `Week of ${day}: ${w.jobs} ${w.jobs === 1 ? "job" : "jobs"}${w.jobs ? `, ${words(w)}` : ""}`;
      setText(label, day);
      setText(hear, text);
      root.title = text;
      for (const [name, span] of Object.entries(spans)) span.style.height = `${(100 * w[name]) / most}%`;
    },
  };
}

function bars(longest) {
  const [waited, used, idle] = parts();
  const spans = { waited, used, idle };
  const title = el("b"), about = el("span", { class: "about" }), text = el("span", { class: "text" });
  const root = el("li", {}, el("span", { class: "who" }, title, " ", about), el("span", { class: "track", "aria-hidden": "true" }, waited, used, idle), text);
  return {
    root,
    update(r) {
      const { run } = r;
      setText(title, run.session || run.job.name || run.job.id);
      setText(about, `job ${run.job.id} on ${hostLabel(run.host)}, ${clock(r.at)}`);
      setText(text, [jobState(run.job)[1], words(r)].filter(Boolean).join(": "));
      for (const [name, span] of Object.entries(spans)) span.style.width = `${(100 * r[name]) / longest}%`;
    },
  };
}
