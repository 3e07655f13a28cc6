// The jobs of all hosts, one line each. Those of one name are a group, which can be opened.

import { ask, clear, complain, report } from "./dialogs.js";
import { byId, el, fact, setAttribute, setText, show, sync } from "./dom.js";
import { changed, model } from "./model.js";
import { lines, request } from "./server.js";
import { clock, duration, hostLabel, jobEnded, jobState, jobWaits } from "./words.js";

const selected = new Set(); // keys of jobs
const opened = new Set(); // keys of groups
let waits = new Map(); // what the last jobs of each session waited
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
  const found = all.filter((j) => !filter || j.text.includes(filter));
  waits = earlierWaits();
  show(byId("jobs-table"), found.length > 0);
  show(byId("jobs-empty"), !all.length);
  setText(byId("jobs-status"), statusText(found, filter));
  const end = byId("jobs-end");
  end.disabled = !selected.size || !!ending;
  setText(end, ending ? ending : selected.size ? `End ${count(selected.size)}…` : "End the selected jobs…");
  sync(byId("jobs-rows"), grouped(found, !!filter), (r) => r.key, (r) => (r.jobs ? groupRow() : jobRow()), now);
}

const count = (n) => `${n} ${n === 1 ? "job" : "jobs"}`;

function statusText(found, filter) {
  if (!all.length) return "";
  const chosen = selected.size ? `, ${selected.size} selected` : "";
  return (filter ? `${found.length} of ${count(all.length)}` : count(all.length)) + chosen;
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

// grouped puts jobs of one name on one host below a row of their own, if that is open.
function grouped(jobs, open) {
  const groups = Map.groupBy(jobs, (j) => `${j.host} ${j.name}`);
  return [...groups].flatMap(([key, members]) => {
    if (members.length === 1 || !members[0].name) return members;
    const expanded = open || opened.has(key);
    return [{ key: `group ${key}`, group: key, jobs: members, expanded }, ...(expanded ? members.map((m) => ({ ...m, inGroup: true })) : [])];
  });
}

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

function checkbox(jobsOf) {
  const box = el("input", { type: "checkbox", onchange: () => {
    for (const { key } of jobsOf()) box.checked ? selected.add(key) : selected.delete(key);
    changed();
  } });
  return box;
}

const cell = (...children) => el("td", { role: "cell" }, ...children);

function groupRow() {
  let row;
  const box = checkbox(() => row.jobs);
  const name = el("b"), about = el("span", { class: "about" });
  const toggle = el("button", { type: "button", class: "fold", onclick: () => {
    if (!opened.delete(row.group)) opened.add(row.group);
    changed();
  } }, name, " ", about);
  const root = el("tr", { role: "row", class: "group" }, cell(box), el("th", { role: "rowheader", scope: "row", colspan: "5" }, toggle));
  return {
    root,
    update(r) {
      row = r;
      const chosen = r.jobs.filter((j) => selected.has(j.key)).length;
      box.checked = chosen === r.jobs.length;
      box.indeterminate = chosen > 0 && !box.checked;
      setAttribute(box, "aria-label", `Select all ${r.jobs.length} jobs ${r.jobs[0].name}`);
      setAttribute(toggle, "aria-expanded", String(r.expanded));
      setText(name, r.jobs[0].name);
      const states = [...Map.groupBy(r.jobs, (j) => jobState(j.job)[1])].map(([state, list]) => `${list.length} ${state.toLowerCase()}`);
      setText(about, `${count(r.jobs.length)} on ${hostLabel(r.jobs[0].host)}: ${states.join(", ")}`);
    },
  };
}

function jobRow() {
  let row;
  const box = checkbox(() => [row]);
  const id = el("b"), name = el("span", { class: "about" });
  const facts = el("dl"), log = el("a", {}, "Log");
  const details = el("td", { role: "cell", class: "details", hidden: true }, facts, log);
  const toggle = el("button", { type: "button", class: "fold", "aria-expanded": "false", onclick: async () => {
    show(details, details.hidden);
    setAttribute(toggle, "aria-expanded", String(!details.hidden));
    if (details.hidden) return;
    try {
      sync(facts, await request(`/api/hosts/${encodeURIComponent(row.host)}/jobs/${encodeURIComponent(row.job.id)}`), ([term]) => term, fact);
    } catch (error) {
      complain(null, `read job ${row.job.id}`, error);
    }
  } }, id, " ", name);
  const job = el("th", { role: "rowheader", scope: "row" }, toggle);
  const [host, why, start] = [cell(), cell(), cell()];
  const state = el("span", { class: "state" });
  const root = el("tr", { role: "row" }, cell(box), job, host, cell(state), why, start, details);
  return {
    root,
    update(r, now) {
      row = r;
      const [kind, words] = jobState(r.job);
      box.checked = selected.has(r.key);
      setAttribute(root, "data-kind", kind);
      setAttribute(root, "class", r.inGroup ? "member" : "");
      setAttribute(box, "aria-label", `Select job ${r.job.id}`);
      setText(id, r.job.id);
      setText(name, r.name);
      setAttribute(log, "href", `#logs/${[r.session ? [r.session.name] : [r.host, r.job.id]].flat().map(encodeURIComponent).join("/")}`);
      setAttribute(log, "aria-label", `Log of job ${r.job.id}`);
      setText(host, hostLabel(r.host));
      setText(state, words);
      setText(why, reason(r.job));
      setAttribute(why, "title", reason(r.job));
      const earlier = (jobWaits(r.job) && waits.get(r.session?.name)) || [];
      setText(start, startOf(r.job, now) + (earlier.length ? ` (earlier ones waited ${earlier.map(duration).join(", ")})` : ""));
      setAttribute(start, "title", start.textContent);
    },
  };
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

const charged = ({ session, job }) => (session && model.texts.get(session.name)?.all) || `job ${job.id}`;

// endSelected has the agent end the selected jobs: it continues if this page is closed.
async function endSelected() {
  const jobs = all.filter((j) => selected.has(j.key));
  const running = jobs.filter((j) => !jobWaits(j.job)).length;
  const answer = await ask({
    title: `End ${jobs.length === 1 ? `job ${jobs[0].job.id}` : count(jobs.length)}?`,
    text: (jobs.length > 1 || charged(jobs[0]).includes(" and ") ? `This ends ${jobs.map(charged).join(" and ")}. ` : "") + (running ? `${running === jobs.length ? "They stop" : `${running} of them run, and stop`} at once. Work that is not saved is lost.`.replace(/^They stop/, jobs.length === 1 ? "It stops" : "They stop") : `${jobs.length === 1 ? "It leaves" : "They leave"} the queue.`),
    yes: jobs.length === 1 ? "End the job" : "End the jobs", no: jobs.length === 1 ? "Keep it" : "Keep them", danger: true,
  });
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
    if (failed.length) complain(null, `end ${count(failed.length)} of ${jobs.length}`, failed[0]);
    else if (done === jobs.length) report(null, "", `Ended ${count(done)}.`);
    else throw new Error(`the agent has stopped; ${done} of ${jobs.length} were ended`);
  } catch (error) {
    complain(null, "end the jobs", error);
  }
  ending = "";
  changed();
}
