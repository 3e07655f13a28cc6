// The jobs of all hosts, one line each. Those of one name are a group, which can be opened.

import { askEnd, clear, complain, report } from "./dialogs.js";
import { button, byId, draw, facts, h } from "./dom.js";
import { changed, model } from "./model.js";
import { lines, pathOf, request } from "./server.js";
import { clock, count, duration, hostLabel, jobEnded, jobState, jobWaits } from "./words.js";

const selected = new Set(); // keys of jobs
const opened = new Map(); // keys of groups and of jobs, with what the scheduler said of these
let all = []; // the jobs that were drawn last
let ending = ""; // how many of the selected jobs were ended

export function startJobs() {
  byId("jobs-filter").addEventListener("input", changed);
  byId("jobs-end").addEventListener("click", endSelected);
}

export function drawJobs(now) {
  if (byId("jobs").hidden) return;
  all = listJobs();
  for (const key of selected) if (!all.some((j) => j.key === key)) selected.delete(key);
  const filter = byId("jobs-filter").value.trim().toLowerCase();
  const found = all.filter((j) => !filter || j.text.includes(filter)), waits = earlierWaits();
  byId("jobs-table").hidden = !found.length;
  byId("jobs-empty").hidden = all.length > 0;
  draw(byId("jobs-status"), statusText(found, filter));
  const end = byId("jobs-end");
  end.disabled = !selected.size || !!ending;
  draw(end, ending || (selected.size ? `End ${count(selected.size, "job")}…` : "End the selected jobs…"));
  draw(byId("jobs-rows"), [...Map.groupBy(found, (j) => `${j.host} ${j.name}`)].flatMap(([key, jobs]) => {
    if (jobs.length === 1 || !jobs[0].name) return jobs.map((j) => jobRow(j, "", waits, now));
    const open = !!filter || opened.has(key);
    return [groupRow(key, jobs, open), ...(open ? jobs.map((j) => jobRow(j, "member", waits, now)) : [])];
  }));
}

function statusText(found, filter) {
  if (!all.length) return "";
  const chosen = selected.size ? `, ${selected.size} selected` : "";
  return (filter ? `${found.length} of ` : "") + count(all.length, "job") + chosen;
}

function listJobs() {
  const sessions = new Map();
  for (const s of model.sessions.values()) if (s.job) sessions.set(`${s.host} ${s.job.id}`, s);
  const list = [];
  for (const { host, jobs } of model.jobs) {
    for (const reported of jobs) {
      const session = sessions.get(`${host} ${reported.id}`);
      const job = { ...reported, ...session?.job }; // an event is newer than the list
      if (jobEnded(job)) continue;
      const name = session?.name ?? job.name ?? "";
      const text = [job.id, name, hostLabel(host), jobState(job)[1], reason(job)].join(" ").toLowerCase();
      list.push({ key: `${host} ${job.id} ${job.cluster ?? ""}`, host, job, session, name, text });
    }
  }
  return list.sort((a, b) => jobWaits(b.job) - jobWaits(a.job) || a.host.localeCompare(b.host) || (a.job.submitted ?? "").localeCompare(b.job.submitted ?? ""));
}

// earlierWaits are what the last jobs of each session waited.
function earlierWaits() {
  const bySession = new Map();
  for (const { session, job } of model.runs) {
    if (!job.submitted || !job.start) continue;
    const list = bySession.get(session) ?? [];
    list.push(Date.parse(job.start) - Date.parse(job.submitted));
    bySession.set(session, list.slice(-3));
  }
  return bySession;
}

// row is a row of the table with a box that selects jobs, and a button that unfolds something.
function row({ key, label, jobs, title, about, expanded, toggle, ...properties }, ...cells) {
  const chosen = jobs.filter((j) => selected.has(j.key)).length, every = chosen === jobs.length;
  const select = ({ target }) => {
    for (const j of jobs) target.checked ? selected.add(j.key) : selected.delete(j.key);
    changed();
  };
  return h("tr", { key, role: "row", ...properties },
    cell({}, h("input", { type: "checkbox", "aria-label": label, checked: every, indeterminate: chosen > 0 && !every, onchange: select })),
    h("th", { role: "rowheader", scope: "row", colspan: cells.length ? undefined : "5" }, button([h("b", {}, title), " ", h("span", { class: "about" }, about)], { class: "fold", "aria-expanded": String(expanded) }, toggle)),
    cells);
}

const cell = (properties, ...children) => h("td", { role: "cell", ...properties }, children);

function groupRow(key, jobs, expanded) {
  const [{ name, host }] = jobs;
  const states = [...Map.groupBy(jobs, (j) => jobState(j.job)[1])].map(([state, list]) => `${list.length} ${state.toLowerCase()}`);
  const toggle = () => {
    if (!opened.delete(key)) opened.set(key);
    changed();
  };
  return row({ key: `group ${key}`, class: "group", label: `Select all ${jobs.length} jobs ${name}`, jobs, title: name, about: `${count(jobs.length, "job")} on ${hostLabel(host)}: ${states.join(", ")}`, expanded, toggle });
}

function jobRow(j, kind, waits, now) {
  const { key, host, job, session } = j, [state, words] = jobState(job), expanded = opened.has(key);
  const earlier = (jobWaits(job) && waits.get(session?.name)) || [];
  const start = startOf(job, now) + (earlier.length ? ` (earlier ones waited ${earlier.map(duration).join(", ")})` : "");
  const log = `#logs/${[session ? [session.name] : [host, job.id]].flat().map(encodeURIComponent).join("/")}`;
  return row({ key, class: kind, "data-kind": state, label: `Select job ${job.id}`, jobs: [j], title: job.id, about: j.name, expanded, toggle: () => toggleJob(j) },
    cell({}, hostLabel(host)), cell({}, h("span", { class: "state" }, words)), cell({ title: reason(job) }, reason(job)), cell({ title: start }, start),
    expanded && cell({ class: "details" }, facts(opened.get(key)), h("a", { href: log, "aria-label": `Log of job ${job.id}` }, "Log")));
}

async function toggleJob({ key, host, job }) {
  if (opened.delete(key)) return changed();
  opened.set(key, []);
  changed();
  try {
    opened.set(key, await request(pathOf("hosts", host, `jobs/${encodeURIComponent(job.id)}`)));
    changed();
  } catch (error) {
    complain(null, `read job ${job.id}`, error);
  }
}

function reason(job) {
  if (!jobWaits(job)) return job.nodes || job.node || "–";
  if (job.hint && job.reason) return `${job.hint} (${job.reason})`;
  return job.hint || job.reason || "waiting in the queue";
}

function startOf(job, now) {
  if (job.start && !jobWaits(job)) return `since ${clock(job.start)}`;
  if (Date.parse(job.expectedStart) > now) return `expected ${clock(job.expectedStart)}`;
  return job.submitted ? `waiting for ${duration(now - Date.parse(job.submitted))}` : "–";
}

const charged = ({ session, job }) => (session && model.texts[session.name].all) || `job ${job.id}`;

// endSelected has the agent end the selected jobs: it continues if this page is closed.
async function endSelected() {
  const jobs = all.filter((j) => selected.has(j.key)), several = jobs.length > 1;
  const running = jobs.filter((j) => !jobWaits(j.job)).length, they = several ? "They" : "It", s = several ? "" : "s";
  const ends = several || charged(jobs[0]).includes(" and ") ? `This ends ${jobs.map(charged).join(" and ")}. ` : "";
  const stop = running === jobs.length ? `${they} stop${s}` : `${running} of them ${running === 1 ? "runs, and stops" : "run, and stop"}`;
  const text = ends + (running ? `${stop} at once. Work that is not saved is lost.` : `${they} leave${s} the queue.`);
  const answer = await askEnd(several ? count(jobs.length, "job") : `job ${jobs[0].job.id}`, text, several);
  if (!answer || ending) return;
  clear();
  ending = `Ending job 1 of ${jobs.length}…`;
  changed();
  const failed = [];
  let done = 0;
  try {
    const body = { jobs: jobs.map(({ session, host, job }) => (session ? { session: session.name } : { host, job: job.id })) };
    await lines("/api/end-jobs", undefined, (progress) => {
      done = progress.done;
      if (progress.error) failed.push(progress.error);
      else selected.delete(jobs[done - 1].key);
      ending = `Ending job ${Math.min(done + 1, jobs.length)} of ${jobs.length}…`;
      changed();
    }, body);
    if (failed.length) complain(null, `end ${count(failed.length, "job")} of ${jobs.length}`, failed[0]);
    else if (done === jobs.length) report(null, "busy", `Ended ${count(done, "job")}.`);
    else throw new Error(`the agent has stopped; ${done} of ${jobs.length} were ended`);
  } catch (error) {
    complain(null, "end the jobs", error);
  }
  ending = "";
  changed();
}
