// The jobs of all hosts.

import { endJob } from "./dialogs.js";
import { byId, el, setAttribute, setText, show, sync } from "./dom.js";
import { model } from "./model.js";
import { clock, duration, hostLabel, jobEnded, jobState, jobWaits } from "./words.js";

let waits = new Map(); // what the last jobs of each session waited

export function drawQueue() {
  const rows = [];
  const sessions = new Map();
  for (const s of model.sessions.values()) if (s.job) sessions.set(`${s.host} ${s.job.id}`, s);
  for (const { host, jobs } of model.jobs) {
    for (const job of jobs) {
      const session = sessions.get(`${host} ${job.id}`);
      const newest = session?.job ?? job; // an event is newer than the list
      if (!jobEnded(newest)) rows.push({ host, job: { ...job, ...newest }, session });
    }
  }
  rows.sort((a, b) => jobWaits(b.job) - jobWaits(a.job) || a.host.localeCompare(b.host) || (a.job.submitted ?? "").localeCompare(b.job.submitted ?? ""));
  show(byId("queue"), rows.length > 0);
  show(byId("queue-empty"), !rows.length);
  waits = earlierWaits();
  sync(byId("jobs"), rows, (r) => `${r.host} ${r.job.id} ${r.job.cluster ?? ""}`, row);
}

// earlierWaits are what the last five jobs of each session waited.
function earlierWaits() {
  const bySession = new Map();
  for (const { session, job } of model.runs) {
    if (!job.submitted || !job.start) continue;
    const list = bySession.get(session) ?? [];
    list.push(Date.parse(job.start) - Date.parse(job.submitted));
    bySession.set(session, list.slice(-5));
  }
  return bySession;
}

function row() {
  const cell = (label) => el("td", { role: "cell", "data-label": label });
  const name = el("b"), where = el("span", { class: "about" });
  const state = el("span", { class: "state" });
  const job = el("th", { role: "rowheader", scope: "row" }, name, " ", where);
  const [states, why, start, before, actions] = ["State", "Why", "Start", "Earlier waits", ""].map(cell);
  states.append(state);
  let current;
  const end = el("button", {
    type: "button", class: "danger",
    onclick: () => endJob(end, current.job, current.session?.name ?? hostLabel(current.host), current.session
      ? `/api/sessions/${encodeURIComponent(current.session.name)}/end`
      : `/api/hosts/${encodeURIComponent(current.host)}/jobs/${encodeURIComponent(current.job.id)}/end`),
  }, "End…");
  actions.append(end);
  const root = el("tr", { role: "row" }, job, states, why, start, before, actions);
  return {
    root,
    update(r) {
      current = r;
      const now = Date.now();
      const [kind, words] = jobState(r.job);
      setAttribute(root, "data-kind", kind);
      setText(name, r.job.id);
      setText(where, `${r.session?.name ?? r.job.name ?? ""} on ${hostLabel(r.host)}`.trim());
      setText(state, words);
      setText(why, reason(r.job));
      setText(start, startOf(r.job, now));
      const earlier = (jobWaits(r.job) && waits.get(r.session?.name)) || [];
      setText(before, earlier.length ? earlier.map(duration).join(", ") : "–");
      setAttribute(end, "aria-label", `End job ${r.job.id}`);
    },
  };
}

function reason(job) {
  if (!jobWaits(job)) return job.nodes || job.node || "–";
  if (job.hint && job.reason) return `${job.hint} (${job.reason})`;
  return job.hint || job.reason || "waiting in the queue";
}

function startOf(job, now) {
  if (job.start && !jobWaits(job)) return `${clock(job.start)}`;
  if (job.expectedStart && Date.parse(job.expectedStart) > now) return `expected ${clock(job.expectedStart)}`;
  return job.submitted ? `waiting for ${duration(now - Date.parse(job.submitted))}` : "–";
}
