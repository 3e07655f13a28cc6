// The sessions as cards.

import { bar, sparkline } from "./charts.js";
import { act, ask, complain, endJob } from "./dialogs.js";
import { byId, el, setAttribute, setText, show, sync, withCommands } from "./dom.js";
import { model } from "./model.js";
import { request } from "./server.js";
import { bytes, clock, duration, hostLabel, jobAlive, jobWaits, sessionState } from "./words.js";

export function drawSessions() {
  const sessions = [...model.sessions.values()];
  show(byId("sessions-empty"), model.reached && !sessions.length);
  sync(byId("cards"), sessions, (s) => s.name, (s) => card(s.name));
}

const path = (name, verb) => `/api/sessions/${encodeURIComponent(name)}/${verb}`;

function card(name) {
  const title = el("h3", { id: `session-${name}` }, name);
  const state = el("p", { class: "state" });
  const cause = el("p", { class: "cause" });
  const hint = el("p", { class: "hint" });
  const left = bar();
  const memory = bar();
  const cpu = sparkline("CPU"), gpu = sparkline("GPU"), traffic = sparkline("Traffic");
  const sparks = el("div", { class: "sparks" }, cpu.root, gpu.root, traffic.root);
  const problem = el("p", { class: "about" });
  const facts = el("dl");
  const forwards = el("ul", { class: "forwards", "aria-label": `Forwards of ${name}` });
  const buttons = makeButtons(name);
  const pages = el("span", { class: "pages" });
  const actions = el("div", { class: "actions", role: "group", "aria-label": `Actions for ${name}` }, buttons.open, pages, ...buttons.rest);
  const root = el("article", { class: "card", "aria-labelledby": title.id },
    el("header", {}, title, state), cause, hint, left.root, memory.root, sparks, problem, facts, forwards, actions);
  return {
    root,
    update(s) {
      const now = Date.now();
      const [kind, words] = sessionState(s, now);
      setAttribute(root, "data-kind", kind);
      setText(state, words);
      const why = model.hosts.get(s.host)?.asking ? "waiting for your login" : s.cause ?? "";
      withCommands(cause, why);
      show(cause, !!why);
      withCommands(hint, s.hint ?? "");
      show(hint, !!s.hint);
      drawTimeLeft(left, s, now);
      drawUsage(s, now, { cpu, gpu, traffic, memory, sparks, problem });
      sync(facts, factsOf(s, now), ([term]) => term, fact);
      sync(forwards, s.forwards ?? [], (f) => f.kind + f.listen, forward);
      show(forwards, !!s.forwards?.length);
      sync(pages, s.endpoints ?? [], (e) => e.name, (e) => endpoint(name, e));
      buttons.update(s, now);
    },
  };
}

function drawTimeLeft(left, s, now) {
  const { start, end } = s.job ?? {};
  const visible = !!end && Date.parse(end) > now && jobAlive(s, now) && !jobWaits(s.job) && s.state !== "down";
  show(left.root, visible);
  if (!visible) return;
  const rest = Date.parse(end) - now;
  const whole = start ? Date.parse(end) - Date.parse(start) : rest;
  left.update(`${duration(rest)} left, ends ${clock(end)}`, rest / whole, rest < 15 * 60_000 ? "attention" : "");
}

const percent = (n) => `${Math.round(n)} %`;

// mean is that of the GPUs; undefined if none is measured.
function mean(gpus) {
  const known = (gpus ?? []).filter((g) => g.percent !== undefined);
  return known.length ? known.reduce((sum, g) => sum + g.percent, 0) / known.length : undefined;
}

function drawUsage(s, now, { cpu, gpu, traffic, memory, sparks, problem }) {
  const samples = model.usage.get(s.name) ?? [];
  const last = samples.at(-1);
  const alive = !!last && jobAlive(s, now) && !jobWaits(s.job);
  show(sparks, alive);
  show(memory.root, alive && !!last.memory);
  show(problem, alive && !!last.problem);
  if (!alive) return;
  withCommands(problem, last.problem ?? "");
  const drawn = (chart, value, points, top) => {
    show(chart.root, value !== undefined);
    if (value !== undefined) chart.update(value, points, top, now);
  };
  drawn(cpu, last.cpu === undefined ? undefined : percent(last.cpu) + (last.cpus ? ` of ${last.cpus}` : ""), samples.map((u) => [u.time, u.cpu]), 100);
  const use = mean(last.gpus);
  const names = last.gpus?.length > 1 ? `, ${last.gpus.map((g) => (g.percent === undefined ? "?" : Math.round(g.percent))).join(" · ")}` : "";
  drawn(gpu, use === undefined ? undefined : percent(use) + names, samples.map((u) => [u.time, mean(u.gpus)]), 100);
  const rates = samples.slice(1).map((u, i) => [u.time, rate(samples[i], u)]);
  drawn(traffic, last.bytesIn || last.bytesOut || s.forwards?.length ? `${bytes(rates.at(-1)?.[1] ?? 0)}/s` : undefined, rates);
  if (last.memory) {
    const limit = last.memoryLimit;
    const fraction = limit ? last.memory / limit : undefined;
    memory.update(`Memory ${bytes(last.memory)}${limit ? ` of ${bytes(limit)}` : ""}`, fraction, fraction > 0.9 ? "attention" : "");
  }
}

// rate is the traffic between two samples in bytes per second. A new forward starts at zero.
function rate(before, after) {
  const sum = (u) => (u.bytesIn ?? 0) + (u.bytesOut ?? 0);
  const seconds = (after.time - before.time) / 1000;
  return seconds > 0 ? Math.max(0, sum(after) - sum(before)) / seconds : 0;
}

const idleShown = 60_000; // ms: a pause is not yet idle time

function factsOf(s, now) {
  const list = [["Host", hostLabel(s.host)]];
  if (s.job) {
    list.push(["Job", `${s.job.id}${s.job.queue ? ` in ${s.job.queue}` : ""}`]);
    if (s.job.node) list.push(["Node", s.job.nodes || s.job.node]);
    if (jobWaits(s.job) && Date.parse(s.job.expectedStart) > now) list.push(["Expected start", clock(s.job.expectedStart)]);
  }
  if (s.next) list.push(["Next job", `${s.next.id} follows`]);
  if (s.url) list.push(["Address", s.url]);
  else if (s.app === "shell" && s.state === "ready") list.push(["Shell", `tunctl ssh ${s.name}`]);
  const choices = Object.entries(s.with ?? {});
  if (choices.length) list.push(["Chosen", choices.map(([k, v]) => `${k} ${v}`).join(", ")]);
  const last = model.usage.get(s.name)?.at(-1);
  const gpus = jobAlive(s, now) ? (last?.gpus ?? []).filter((g) => g.memory) : [];
  if (gpus.length) list.push(["GPU memory", gpus.map((g) => bytes(g.memory) + (g.memoryTotal ? ` of ${bytes(g.memoryTotal)}` : "")).join(" · ")]);
  const idle = last?.idleSince;
  if (idle && jobAlive(s, now) && now - Date.parse(idle) >= idleShown) list.push(["Idle since", `${clock(idle)}, for ${duration(now - Date.parse(idle))}`]);
  else if (s.since) list.push(["Since", clock(s.since)]);
  return list;
}

function fact([term]) {
  const value = el("dd");
  return { root: el("div", {}, el("dt", {}, term), value), update: ([, text]) => setText(value, text) };
}

function forward() {
  const root = el("li");
  return {
    root,
    update(f) {
      const target = f.kind === "dynamic" ? "SOCKS proxy" : f.target;
      const arrow = f.kind === "remote" ? "←" : "→";
      const use = f.conns ? `${f.conns} open` : f.total ? "not in use" : "not used yet";
      setText(root, `${f.listen}${target ? ` ${arrow} ${target}` : ""}, ${f.error || f.note || use}`);
    },
  };
}

function endpoint(session, e) {
  const title = model.titles.get(`${session}/${e.name}`) ?? e.name;
  const button = el("button", { type: "button", onclick: () => act(button, `open ${title}`, path(session, "open"), { endpoint: e.name }) }, `Open ${title}`);
  return { root: button, update() {} };
}

function makeButtons(name) {
  const make = (label, what, run) => {
    const button = el("button", { type: "button", onclick: () => run(button) }, label);
    button.setAttribute("aria-label", `${what} ${name}`);
    return button;
  };
  const simple = (label, what, verb) => make(label, what, (b) => act(b, `${what.toLowerCase()} ${name}`, path(name, verb)));
  const session = () => model.sessions.get(name);
  const open = simple("Open", "Open", "open");
  open.className = "main";
  let reconnects = false; // what the button says: it never submits a job that the user did not ask for
  const start = make("Start", "Start", (b) => startJob(b, session(), reconnects));
  start.className = "main";
  const login = make("Log in…", "Log in for", (b) => act(b, `log in to ${session().host}`, `/api/hosts/${encodeURIComponent(session().host)}/login`));
  login.className = "main";
  const choose = make("Start with…", "Start with other choices:", (b) => startWith(b, name));
  const copy = simple("Copy address", "Copy address of", "copy");
  const log = make("Log", "Show the log of", () => { location.hash = `logs/${encodeURIComponent(name)}`; });
  const extend = make("Extend…", "Extend", (b) => extendJob(b, session()));
  const disconnect = simple("Disconnect", "Disconnect", "disconnect");
  const end = make("End the job…", "End the job of", (b) => endJob(b, session().job, name, path(name, "end")));
  end.className = "danger";
  return {
    open,
    rest: [login, start, choose, copy, log, extend, disconnect, end],
    update(s, now) {
      const settled = ["down", "ended", "failed"].includes(s.state);
      const alive = jobAlive(s, now);
      const page = s.state === "ready" && !!s.url;
      show(open, page);
      show(copy, page);
      show(login, s.state === "needs-login");
      show(start, settled);
      reconnects = s.state === "down" && alive;
      const word = reconnects ? "Reconnect" : "Start";
      setText(start, word);
      setAttribute(start, "aria-label", `${word} ${name}`);
      show(choose, settled && !reconnects);
      show(log, !!s.job);
      show(extend, alive && s.job.state === "running" && !!s.job.end);
      show(disconnect, !settled);
      setAttribute(disconnect, "title", !alive ? "" : jobWaits(s.job) ? "The job stays in the queue" : "The job keeps running");
      show(end, alive);
    },
  };
}

// startJob asks which job is meant, if several run under the session's name.
async function startJob(button, s, adopt) {
  const candidates = (s.candidates ?? []).map((j) => [j.id, `${j.id}${j.node ? ` on ${j.node}` : ""}${j.start ? `, since ${clock(j.start)}` : ""}`]);
  let answer = {};
  if (candidates.length) {
    answer = await ask({
      title: `Which job is ${s.name}?`, text: "Several jobs have its name.", yes: "Connect",
      fields: [{ name: "job", label: "Job", value: candidates[0][0], choices: candidates }],
    });
  }
  if (answer) await act(button, `${adopt ? "reconnect to" : "start"} ${s.name}`, path(s.name, "start"), { ...answer, adopt });
}

async function startWith(button, name) {
  let choices;
  try {
    choices = await request(path(name, "choices"));
  } catch (error) {
    complain(`Could not read the choices for ${name}`, error);
    return;
  }
  if (!choices.options?.length) {
    complain(`Nothing can be chosen for ${name}`, new Error("its job script has no questions; change its section of the config instead"));
    return;
  }
  const answers = await ask({
    title: `Start ${name} with`, text: "These apply to this run only. What you leave as it is stays as in the config or the job script.", yes: "Start", presets: choices.recent ?? [],
    fields: choices.options.map((o) => ({ name: o.name, label: o.ask || o.name, value: o.value ?? "", choices: o.choices ?? [] })),
  });
  if (!answers) return;
  const changed = choices.options.filter((o) => answers[o.name] !== (o.value ?? ""));
  await act(button, `start ${name}`, path(name, "start"), { with: Object.fromEntries(changed.map((o) => [o.name, answers[o.name]])) });
}

async function extendJob(button, s) {
  const spans = [["1800", "30 min"], ["3600", "1 h"], ["7200", "2 h"], ["14400", "4 h"], ["28800", "8 h"], ["86400", "1 d"]];
  const answer = await ask({
    title: `Extend job ${s.job.id}`, text: `It ends ${clock(s.job.end)}. Many sites let only their staff extend a running job.`,
    yes: "Ask the scheduler", fields: [{ name: "seconds", label: "How much longer?", value: "3600", choices: spans }],
  });
  if (answer) await act(button, `extend ${s.name}`, path(s.name, "extend"), { seconds: Number(answer.seconds) });
}
