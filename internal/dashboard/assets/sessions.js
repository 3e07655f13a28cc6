// The sessions: those that need somebody, run or failed as cards, the rest as rows.

import { bar, sparkline } from "./charts.js";
import { act, endJobs } from "./dialogs.js";
import { byId, copyable, el, fact, moreMenu, setAttribute, setText, show, sync, tell, withCommands } from "./dom.js";
import { changed, model } from "./model.js";
import { extendJob, sessionPath, startJob, startWith } from "./start.js";
import { bytes, clock, duration, hintOf, hostLabel, jobAlive, jobWaits, sentence, sessionState, waitsFor } from "./words.js";

export function drawSessions(now) {
  const sessions = [...model.sessions.values()];
  const cards = sessions.filter((s) => rank(s, now) < resting).sort((a, b) => rank(a, now) - rank(b, now));
  const rest = sessions.filter((s) => rank(s, now) === resting);
  show(byId("sessions-empty"), model.live && !sessions.length);
  show(byId("sessions-idle"), sessions.length > 0 && !cards.length);
  show(byId("rest-section"), rest.length > 0);
  setText(byId("rest-title"), `Not running (${rest.length})`);
  const focused = document.activeElement?.closest("[data-session]")?.dataset.session;
  sync(byId("cards"), cards, (s) => s.name, (s) => card(s.name), now);
  sync(byId("rest"), rest, (s) => s.name, (s) => row(s.name), now);
  if (focused && document.activeElement === document.body) {
    document.querySelector(`[data-session="${CSS.escape(focused)}"] :is(h3, b)`)?.focus(); // a row that became a card, or the reverse
  }
}

const resting = 5;
const seen = new Set(); // failures whose reason was opened and closed again

// rank orders the sessions: what needs somebody, what is ready, what runs unwatched, what is on its
// way, what failed.
function rank(s, now) {
  if ((s.state === "needs-login" && !waitsFor(s)) || asks(s)) return 0;
  if (s.state === "ready") return 1;
  if (s.state === "failed") return seen.has(s.name + s.since) ? resting : 4;
  if (s.state === "ended" ? othersOf(s).length : s.state === "down" && charged(s, now)) return 2;
  return ["down", "ended"].includes(s.state) ? resting : 3;
}

// foremost is the kind and the words of the state that the tab shows.
export function foremost(now) {
  const first = (s) => (s.state === "needs-login" ? 0 : rank(s, now));
  const [s] = [...model.sessions.values()].filter((s) => first(s) < resting).sort((a, b) => first(a) - first(b));
  if (!s) return ["good", ""];
  const [kind, words] = stateOf(s, now);
  return [kind, `${s.name}: ${words} · `];
}

// othersOf has a line for each job that is or may be charged besides the session's own.
const othersOf = (s) => model.texts.get(s.name)?.others ?? [];

const charged = (s, now) => jobAlive(s, now) || othersOf(s).length > 0;

// heldText says what waits inside a job for a connection, or how that ended within the last hour.
const heldText = (s, now) => (now - Date.parse(s.held?.until) > 3600_000 ? "" : (model.texts.get(s.name)?.held ?? []).map(sentence).join(". "));

// asks reports whether a session waits for a person's answer to its host.
const asks = (s) => ["connecting", "reconnecting"].includes(s.state) && !!model.hosts.get(s.host)?.asking;

const leftBehind = (s, now) => s.state === "down" && jobAlive(s, now) && !jobWaits(s.job);

function stateOf(s, now) {
  const [kind, words] = asks(s) ? ["attention", "Waiting for your answer"] : sessionState(s);
  return [leftBehind(s, now) ? "charged" : kind, words];
}

function card(name) {
  const title = el("h3", { id: `session-${name}`, tabindex: "-1" }, name);
  const state = el("p", { class: "state" });
  const cause = el("p", { class: "cause" });
  const failure = el("details", { ontoggle: () => {
    const s = model.sessions.get(name);
    if (!failure.open && s) seen.add(s.name + s.since);
    changed();
  } }, el("summary", { "aria-label": `Why ${name} failed` }, "Why?"));
  const output = el("pre", { class: "output", tabindex: "0", role: "region", "aria-label": `Output of ${name}` });
  const hint = el("p", { class: "hint" });
  const where = el("p", { class: "about" });
  const others = el("ul", { class: "forwards", "aria-label": `Other jobs of ${name}` });
  const held = el("p", { class: "about" });
  const address = el("div"); // no link: a browser without the notebook's cookie would be asked for the token
  const left = bar();
  const memory = bar();
  const cpu = sparkline("CPU"), gpu = sparkline("GPU"), traffic = sparkline("Traffic");
  const sparks = el("div", { class: "sparks" }, cpu.root, gpu.root, traffic.root);
  const problem = el("p", { class: "about" });
  const facts = el("dl");
  const forwards = el("ul", { class: "forwards", "aria-label": `Forwards of ${name}` });
  const details = el("details", {}, el("summary", { "aria-label": `Details of ${name}` }, "Details"), facts, forwards);
  const buttons = makeButtons(name);
  const root = el("article", { class: "card", "data-session": name, "aria-labelledby": title.id },
    el("header", {}, title, state), failure, cause, output, hint, where, others, held, address, left.root, memory.root, sparks, problem, details, buttons.root);
  return {
    root,
    update(s, now) {
      const [kind, words] = stateOf(s, now);
      setAttribute(root, "data-kind", kind);
      setText(state, words);
      const [why, ...lines] = causeOf(s).split("\n"), failed = s.state === "failed";
      show(failure, failed);
      if (failed && cause.parentNode === root) failure.append(cause, output, hint);
      else if (!failed && cause.parentNode === failure) failure.after(cause, output, hint);
      tell(cause, why);
      setText(output, lines.join("\n"));
      show(output, lines.length > 0);
      tell(hint, waitsFor(s) ? "" : hintOf(s));
      withCommands(where, whereOf(s, now));
      sync(others, othersOf(s), (text) => text, otherJob);
      show(others, othersOf(s).length > 0);
      tell(held, heldText(s, now));
      sync(address, s.url ? [s.url] : [], (url) => url, (url) => ({ root: copyable(url), update() {} }));
      show(address, !!s.url);
      drawTimeLeft(left, s, now);
      drawUsage(s, now, { cpu, gpu, traffic, memory, sparks, problem });
      const list = factsOf(s, now);
      sync(facts, list, ([term]) => term, fact);
      sync(forwards, s.forwards ?? [], (f) => f.kind + f.listen, forward);
      show(forwards, !!s.forwards?.length);
      show(details, list.length > 0 || !!s.forwards?.length);
      buttons.update(s, now);
    },
  };
}

function row(name) {
  const title = el("b", { tabindex: "-1" }, name);
  const state = el("span", { class: "state" });
  const about = el("span", { class: "about" });
  const buttons = makeButtons(name);
  const root = el("li", { class: "row", "data-session": name }, title, state, about, buttons.root);
  return {
    root,
    update(s, now) {
      const [kind, words] = stateOf(s, now);
      setAttribute(root, "data-kind", kind);
      setText(state, words);
      const text = [hostLabel(s.host), causeOf(s).split("\n")[0].replaceAll("`", "")].filter(Boolean).join(": ");
      setText(about, text);
      setAttribute(about, "title", text);
      buttons.update(s, now);
    },
  };
}

function causeOf(s) {
  if (waitsFor(s)) return `waits for ${hostLabel(s.host)}`;
  return asks(s) ? "answer in the window that asks" : s.cause ?? "";
}

function whereOf(s, now) {
  const parts = [hostLabel(s.host)];
  if (s.job) parts.push(`job ${s.job.id}${s.job.node ? ` on ${s.job.nodes || s.job.node}` : ""}`);
  if (s.job && jobWaits(s.job) && Date.parse(s.job.expectedStart) > now) parts.push(`expected to start ${clock(s.job.expectedStart)}`);
  if (s.app === "shell" && s.state === "ready") parts.push(`\`tunctl ssh ${s.name}\``);
  return parts.join(" · ");
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
  const list = [];
  if (s.job?.queue) list.push(["Queue", s.job.queue]);
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

function otherJob() {
  const root = el("li");
  return { root, update: (text) => withCommands(root, sentence(text)) };
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

// makeButtons are the main button, Log, and a menu with the rest.
function makeButtons(name) {
  const make = (label, what, run) => {
    const button = el("button", { type: "button", onclick: () => run(button) }, label);
    button.setAttribute("aria-label", `${what} ${name}`);
    return button;
  };
  const simple = (label, what, verb) => make(label, what, (b) => act(b, `${what.toLowerCase()} ${name}`, sessionPath(name, verb)));
  const session = () => model.sessions.get(name);
  let reconnects = false; // what the button says: it never submits a job that the user did not ask for
  const open = simple("Open", "Open", "open");
  const start = make("Start", "Start", (b) => startJob(b, session(), reconnects));
  const login = make("Log in…", "Log in for", (b) => act(b, `log in to ${session().host}`, `/api/hosts/${encodeURIComponent(session().host)}/login`));
  for (const button of [open, start, login]) button.className = "main";
  const log = make("Log", "Show the log of", () => { location.hash = `logs/${encodeURIComponent(name)}`; });
  const pages = el("div", { class: "pages" });
  const copy = simple("Copy address", "Copy address of", "copy");
  const choose = make("Start with…", "Start with other choices:", (b) => startWith(b, session()));
  const extend = make("Extend…", "Extend", (b) => extendJob(b, session()));
  const keep = make("Keep", "Keep the job of", (b) => act(b, `keep the job of ${name}`, sessionPath(name, "extend"), { idle: true }));
  const dismiss = simple("Dismiss", "Dismiss the failure of", "disconnect");
  const disconnect = simple("Disconnect", "Disconnect", "disconnect");
  const end = make("End the job…", "End the job of", (b) => endJobs(b, session(), sessionPath(name, "end")));
  end.className = "danger";
  const more = moreMenu(`More for ${name}`, pages, copy, choose, extend, disconnect, end), menu = end.parentNode;
  const root = el("div", { class: "actions", role: "group", "aria-label": `Actions for ${name}` }, open, login, start, keep, log, dismiss, more);
  return {
    root,
    update(s, now) {
      const settled = ["down", "ended", "failed"].includes(s.state);
      const alive = jobAlive(s, now);
      const page = s.state === "ready" && !!s.url;
      reconnects = s.state === "down" && alive;
      const word = reconnects ? "Reconnect" : "Start";
      setText(start, word);
      setAttribute(start, "aria-label", `${word} ${name}`);
      setText(disconnect, !alive ? "Disconnect" : jobWaits(s.job) ? "Disconnect (the job stays in the queue)" : "Disconnect (the job keeps running, charged)");
      const place = reconnects ? root : menu;
      if (end.parentNode !== place) place.insertBefore(end, reconnects ? more : null);
      sync(pages, s.endpoints ?? [], (e) => e.name, (e) => endpoint(name, e));
      show(open, page);
      show(login, s.state === "needs-login" && !waitsFor(s));
      show(start, settled);
      show(log, !!s.job);
      show(dismiss, s.state === "failed" && !alive);
      show(copy, page);
      show(choose, settled && !reconnects);
      show(extend, alive && s.job.state === "running" && !!s.job.end);
      show(keep, alive && !!s.idleEnd);
      show(disconnect, !settled);
      show(end, charged(s, now));
      show(more, page || !reconnects || !!s.endpoints?.length);
    },
  };
}

function endpoint(session, e) {
  const title = model.titles.get(`${session}/${e.name}`) ?? e.name;
  const button = el("button", { type: "button", onclick: () => act(button, `open ${title}`, sessionPath(session, "open"), { endpoint: e.name }) }, `Open ${title}`);
  return { root: button, update() {} };
}
