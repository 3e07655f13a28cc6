// Past jobs as charts: what they waited, ran, and ran idle, and how they ended.

import { byId, el, setAttribute, setText, show, sync } from "./dom.js";
import { model } from "./model.js";
import { clock, duration, hostLabel, jobState } from "./words.js";

const hour = 3600_000;
const weeksShown = 12, runsShown = 100;

export function drawHistory(now) {
  if (byId("history").hidden) return;
  const runs = model.runs.map(times).filter((r) => r.at);
  show(byId("history-empty"), !runs.length);
  show(byId("history-charts"), runs.length > 0);
  if (!runs.length) return;
  const recent = perWeek(now), weeks = recent.slice(Math.max(0, recent.findIndex((w) => w.jobs)));
  setText(byId("totals"), `This week ${ranText(recent.at(-1))}; last week ${ranText(recent.at(-2))}`);
  const top = roundUp(Math.max(...weeks.map((w) => 1000 * w.ran))) / 1000;
  const units = [...new Set(weeks.flatMap((w) => w.sums.map((x) => x.unit)))], unit = units.length === 1 ? units[0] : "hours";
  setText(byId("weeks-top"), hours([{ unit, used: top }]));
  setText(byId("weeks-half"), hours([{ unit, used: top / 2 }]));
  sync(byId("weeks"), weeks, (w) => w.day, column, top);
  const newest = runs.slice(-runsShown).reverse();
  const longest = roundUp(Math.max(...newest.map((r) => r.waited + r.used + r.idle)));
  setText(byId("runs-half"), duration(longest / 2));
  setText(byId("runs-end"), duration(longest));
  sync(byId("runs"), newest, (r) => `${r.run.host} ${r.run.job.id} ${r.at}`, bars, longest);
}

// roundUp is the end of an axis on which the longest span fits. Its half has a short name, too.
const roundUp = (ms) => [...[1, 2, 4, 10, 20, 30].map((m) => (m * hour) / 60), ...[1, 2, 4, 6, 12, 24, 48, 100, 168, 200, 400, 1000, 2000, 5000, 10_000].map((h) => h * hour)].find((end) => ms <= end) ?? ms;

// times are the spans of a run, in milliseconds. How long a requeued job waited is not known.
function times(run) {
  const { submitted, start, end, restarts } = run.job;
  const span = (from, to) => (from && to ? Math.max(0, Date.parse(to) - Date.parse(from)) : 0);
  const ran = span(start, end);
  const idle = Math.min(ran, 1000 * (run.idle ?? 0));
  return { run, at: Date.parse(end ?? run.noted), waited: restarts ? 0 : span(submitted, start), used: ran - idle, idle };
}

// perWeek has the last weeks, the oldest first, with the agent's sums. A week begins on Monday.
function perWeek(now) {
  const monday = new Date(now);
  monday.setDate(monday.getDate() - ((monday.getDay() + 6) % 7) - 7 * weeksShown);
  return Array.from({ length: weeksShown }, () => {
    monday.setDate(monday.getDate() + 7);
    const day = monday.toLocaleDateString("sv"), sums = model.weeks.filter((w) => w.week === day); // 2026-11-16
    const total = (name) => sums.reduce((n, w) => n + w[name], 0);
    return { begin: monday.getTime(), day, sums, ran: total("used"), idle: total("idle"), finished: total("finished"), failed: total("failed"), jobs: total("jobs") };
  });
}

function hours(sums, name = "used") {
  const byUnit = new Map(), number = (s) => (s / 3600).toLocaleString("en", { maximumFractionDigits: s < 36_000 ? 1 : 0 });
  const minutes = (s, unit) => (s < 60 ? `${s} ${unit === "hours" ? "s" : unit.replace("hours", "seconds")}` : `${Math.round(s / 60)} ${unit === "hours" ? "min" : unit.replace("hours", "minutes")}`);
  for (const w of sums) byUnit.set(w.unit, (byUnit.get(w.unit) ?? 0) + w[name]);
  const known = [...byUnit].filter(([, s]) => s);
  return known.map(([unit, s]) => s < 3600 ? minutes(s, unit) : `${number(s)} ${unit === "hours" ? "h" : unit}`).join(" and ") || "0 h";
}

const ranText = (w) => `${hours(w.sums)}${w.idle ? `, ${hours(w.sums, "idle")} idle` : ""}`;

const part = (name) => el("span", { class: name, "aria-hidden": "true" });

function column() {
  const parts = ["other", "failed", "finished"].map(part);
  const label = el("span", { class: "day", "aria-hidden": "true" });
  const hear = el("span", { class: "hear" });
  const root = el("div", { role: "listitem" }, hear, el("span", { class: "stack", "aria-hidden": "true" }, ...parts), label);
  return {
    root,
    update(w, top) {
      const day = new Date(w.begin).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
      const text = `Week of ${day}: ${w.jobs} ${w.jobs === 1 ? "job" : "jobs"}${w.jobs ? `, ${ranText(w)}` : ""}`;
      setText(label, day);
      setText(hear, text);
      setAttribute(root, "title", text);
      for (const [i, seconds] of [w.ran - w.failed - w.finished, w.failed, w.finished].entries()) parts[i].style.height = `${(100 * seconds) / top}%`;
    },
  };
}

function bars() {
  const spans = { waited: part("waited"), used: part("used"), idle: part("idle") };
  const title = el("b"), about = el("span", { class: "about" }), text = el("span", { class: "text" });
  const root = el("li", {}, el("span", { class: "who" }, title, " ", about), el("span", { class: "track", "aria-hidden": "true" }, ...Object.values(spans)), text);
  return {
    root,
    update(r, longest) {
      const { run } = r;
      const [kind, outcome] = jobState(run.job);
      setAttribute(root, "data-kind", run.job.state === "finished" ? "good" : kind === "attention" ? "quiet" : kind);
      setText(title, run.session || run.job.name || run.job.id);
      setText(about, `job ${run.job.id} on ${hostLabel(run.host)}, ${clock(r.at)}`);
      const told = [["asked", 1000 * (run.asked ?? 0)], ["waited", r.waited], [run.asked ? "used" : "ran", r.used + r.idle], ["idle", r.idle]].filter(([, ms]) => ms >= 1000).map(([what, ms]) => `${what} ${duration(ms)}`).join(", ");
      setText(text, [outcome, told].filter(Boolean).join(": "));
      for (const [name, span] of Object.entries(spans)) span.style.width = r[name] ? `max(2px, ${(100 * r[name]) / longest}%)` : "0";
    },
  };
}
