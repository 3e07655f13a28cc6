// Past jobs as charts: what they waited, ran, and ran idle, and how they ended.

import { byId, draw, h } from "./dom.js";
import { model } from "./model.js";
import { clock, count, duration, hostLabel, jobState } from "./words.js";

const hour = 3600_000;
const weeksShown = 12, runsShown = 100;

export function drawHistory(now) {
  if (byId("history").hidden) return;
  const runs = model.runs.map(times).filter((r) => r.at);
  byId("history-empty").hidden = runs.length > 0;
  byId("history-charts").hidden = !runs.length;
  if (!runs.length) return;
  const recent = perWeek(now), weeks = recent.slice(Math.max(0, recent.findIndex((w) => w.jobs)));
  draw(byId("totals"), `This week ${ranText(recent.at(-1))}; last week ${ranText(recent.at(-2))}`);
  const top = roundUp(Math.max(...weeks.map((w) => 1000 * w.ran))) / 1000;
  const units = [...new Set(weeks.flatMap((w) => w.sums.map((x) => x.unit)))], unit = units.length === 1 ? units[0] : "seconds";
  draw(byId("weeks-top"), hours([{ unit, used: top }]));
  draw(byId("weeks-half"), hours([{ unit, used: top / 2 }]));
  draw(byId("weeks"), weeks.map((w) => column(w, top)));
  const newest = runs.slice(-runsShown).reverse();
  const longest = roundUp(Math.max(...newest.map((r) => r.waited + r.used + r.idle)));
  draw(byId("runs-half"), duration(longest / 2));
  draw(byId("runs-end"), duration(longest));
  draw(byId("runs"), newest.map((r) => bars(r, longest)));
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
    const total = (name) => sums.reduce((n, w) => n + (w[name] ?? 0), 0);
    return { begin: monday.getTime(), day, sums, ran: total("used"), idle: total("idle"), finished: total("finished"), failed: total("failed"), jobs: total("jobs") };
  });
}

function hours(sums, name = "used") {
  const byUnit = new Map(), number = (s) => (s / 3600).toLocaleString("en", { maximumFractionDigits: s < 36_000 ? 1 : 0 });
  const minutes = (s, unit) => (s < 60 ? `${s} ${unit === "seconds" ? "s" : unit}` : `${Math.round(s / 60)} ${unit === "seconds" ? "min" : unit.replace("seconds", "minutes")}`);
  for (const w of sums) byUnit.set(w.unit, (byUnit.get(w.unit) ?? 0) + (w[name] ?? 0));
  const known = [...byUnit].filter(([, s]) => s);
  return known.map(([unit, s]) => s < 3600 ? minutes(s, unit) : `${number(s)} ${unit === "seconds" ? "h" : unit.replace("seconds", "hours")}`).join(" and ") || "0 h";
}

const ranText = (w) => `${hours(w.sums)}${w.idle ? `, ${hours(w.sums, "idle")} idle` : ""}`;

const part = (kind, name, style) => h("span", { class: name, "data-kind": kind, style });

function column(w, top) {
  const day = new Date(w.begin).toLocaleDateString("en-GB", { day: "numeric", month: "short" });
  const text = `Week of ${day}: ${count(w.jobs, "job")}${w.jobs ? `, ${ranText(w)}` : ""}`;
  const height = (seconds) => ({ height: `${(100 * seconds) / top}%` });
  return h("div", { key: w.day, role: "listitem", title: text }, h("span", { class: "hear" }, text),
    h("span", { class: "stack", "aria-hidden": "true" }, part("quiet", "other", height(w.ran - w.failed - w.finished)), part("trouble", "failed", height(w.failed)), part("good", "finished", height(w.finished))),
    h("span", { class: "day", "aria-hidden": "true" }, day));
}

function bars(r, longest) {
  const { job, session, host, asked } = r.run, [kind, outcome] = jobState(job);
  const spans = [["asked", 1000 * (asked ?? 0)], ["waited", r.waited], [asked ? "used" : "ran", r.used + r.idle], ["idle", r.idle]];
  const told = spans.filter(([, ms]) => ms >= 1000).map(([what, ms]) => `${what} ${duration(ms)}`).join(", ");
  const track = ["waited", "used", "idle"].map((name) => part(name === "waited" ? "attention" : undefined, name, { width: r[name] ? `max(2px, ${(100 * r[name]) / longest}%)` : "0" }));
  return h("li", { key: `${host} ${job.id} ${r.at}`, "data-kind": job.state === "finished" ? "good" : kind === "attention" ? "quiet" : kind },
    h("span", { class: "who" }, h("b", {}, session || job.name || job.id), " ", h("span", { class: "about" }, `job ${job.id} on ${hostLabel(host)}, ${clock(r.at)}`)),
    h("span", { class: "track", "aria-hidden": "true" }, track),
    h("span", { class: "text" }, [outcome, told].filter(Boolean).join(": ")));
}
