// The sessions: those that need somebody, run or failed as cards, the rest as rows.

import { bar, sparkline } from "./charts.js";
import { act, endJobs } from "./dialogs.js";
import { button, byId, commands, copyable, draw, facts, h, list, moreMenu, tell, unfold } from "./dom.js";
import { changed, model } from "./model.js";
import { pathOf } from "./server.js";
import { extendJob, startJob, startWith } from "./start.js";
import { bytes, clock, duration, hintOf, hostLabel, jobAlive, jobWaits, sentence, sessionState, troubleOf, waitsFor } from "./words.js";

export function drawSessions(now) {
  const sessions = [...model.sessions.values()];
  const cards = sessions.filter((s) => rank(s, now) < resting).sort((a, b) => rank(a, now) - rank(b, now));
  const rest = sessions.filter((s) => rank(s, now) === resting);
  const focused = document.activeElement?.closest("[data-session]")?.dataset.session;
  draw(byId("sessions"),
    model.live && !sessions.length && tell("empty", "No session is set up yet. `tunctl init` in a terminal asks a few questions and sets up your first one."),
    sessions.length > 0 && !cards.length && tell("empty", "Nothing is running."),
    h("div", { class: "cards", id: "cards" }, cards.map((s) => card(s, now))));
  draw(byId("others"), rest.length > 0 && h("section", { "aria-labelledby": "rest-title" },
    h("h2", { id: "rest-title" }, `Not running (${rest.length})`), h("ul", { class: "rows", id: "rest" }, rest.map((s) => row(s, now)))));
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
const othersOf = (s) => model.texts[s.name]?.others ?? [];

const charged = (s, now) => jobAlive(s, now) || othersOf(s).length > 0;

// heldText says what waits inside a job for a connection, or how that ended within the last hour.
const heldText = (s, now) => (now - Date.parse(s.held?.until) > 3600_000 ? "" : (model.texts[s.name]?.held ?? []).map(sentence).join(". "));

// asks reports whether a session waits for a person's answer to its host.
const asks = (s) => ["connecting", "reconnecting"].includes(s.state) && !!model.hosts.get(s.host)?.asking;

// leftBehind reports whether a job runs although its session is down. Its time limit may have passed since that was said.
const leftBehind = (s, now) => s.state === "down" && model.texts[s.name]?.charged && (jobAlive(s, now) || othersOf(s).length > 0);

function stateOf(s, now) {
  const [kind, words] = asks(s) ? ["attention", "Waiting for your answer"] : sessionState(s);
  return [leftBehind(s, now) ? "charged" : kind, words];
}

function card(s, now) {
  const [kind, words] = stateOf(s, now), [why, ...output] = causeOf(s).split("\n");
  const known = factsOf(s, now), forwards = s.forwards ?? [];
  const reason = [
    tell("cause", why),
    output.length > 0 && h("pre", { class: "output", tabindex: "0", role: "region", "aria-label": `Output of ${s.name}` }, output.join("\n")),
    tell("hint", waitsFor(s) ? "" : hintOf(s)),
  ];
  const close = ({ target }) => {
    if (!target.open) seen.add(s.name + s.since);
    changed();
  };
  return h("article", { key: s.name, class: "card", "data-session": s.name, "data-kind": kind, "aria-labelledby": `session-${s.name}` },
    h("header", {}, h("h3", { id: `session-${s.name}`, tabindex: "-1" }, s.name), h("p", { class: "state" }, words)),
    s.state === "failed" ? h("details", { ontoggle: close }, h("summary", { "aria-label": `Why ${s.name} failed` }, "Why?"), reason) : reason,
    tell("about", whereOf(s, now)),
    list(`Other jobs of ${s.name}`, othersOf(s).map((text) => commands(sentence(text)))),
    tell("about", heldText(s, now)),
    tell("about", sentence(model.texts[s.name]?.cells ?? "")),
    s.url && h("div", {}, copyable(s.url)), // no link: a browser without the notebook's cookie would be asked for the token
    timeLeft(s, now),
    usage(s, now),
    known.length + forwards.length > 0 && unfold(`Details of ${s.name}`, "Details", facts(known), list(`Forwards of ${s.name}`, forwards.map(forwardText))),
    actions(s, now));
}

function row(s, now) {
  const [kind, words] = stateOf(s, now);
  const about = [hostLabel(s.host), causeOf(s).split("\n")[0], model.texts[s.name]?.cells].filter(Boolean).join(": ").replaceAll("`", "");
  return h("li", { key: s.name, class: "row", "data-session": s.name, "data-kind": kind },
    h("b", { tabindex: "-1" }, s.name), h("span", { class: "state" }, words), h("span", { class: "about", title: about }, about), actions(s, now));
}

function causeOf(s) {
  if (waitsFor(s)) return `waits for ${hostLabel(s.host)}${s.cause.slice(troubleOf(s).length)}`;
  return asks(s) ? "answer in the window that asks" : s.cause ?? "";
}

function whereOf(s, now) {
  const parts = [hostLabel(s.host)];
  if (s.job) parts.push(`job ${s.job.id}${s.job.node ? ` on ${s.job.nodes || s.job.node}` : ""}`);
  if (s.job && jobWaits(s.job) && Date.parse(s.job.expectedStart) > now) parts.push(`expected to start ${clock(s.job.expectedStart)}`);
  if (s.app === "shell" && s.state === "ready") parts.push(`\`tunctl ssh ${s.name}\``);
  return parts.join(" · ");
}

function timeLeft(s, now) {
  const { start, end } = s.job ?? {}, left = Date.parse(end) - now;
  if (!(left > 0) || !jobAlive(s, now) || jobWaits(s.job) || s.state === "down") return false;
  const whole = start ? Date.parse(end) - Date.parse(start) : left;
  return bar(`${duration(left)} left, ends ${clock(end)}`, left / whole, left < 15 * 60_000);
}

const percent = (n) => `${Math.round(n)} %`;

function mean(gpus) {
  const known = (gpus ?? []).filter((g) => g.percent !== undefined);
  return known.length ? known.reduce((sum, g) => sum + g.percent, 0) / known.length : undefined;
}

function usage(s, now) {
  const samples = model.usage.get(s.name) ?? [], last = samples.at(-1);
  if (!last || !jobAlive(s, now) || jobWaits(s.job)) return false;
  const of = (total) => (total ? ` of ${bytes(total)}` : "");
  const gpu = mean(last.gpus), each = last.gpus?.length > 1 ? `, ${last.gpus.map((g) => (g.percent === undefined ? "?" : Math.round(g.percent))).join(" · ")}` : "";
  const rates = samples.slice(1).map((u, i) => [u.time, rate(samples[i], u)]);
  const moves = last.bytesIn || last.bytesOut || s.forwards?.length;
  const memory = last.memoryLimit ? last.memory / last.memoryLimit : undefined;
  return [
    last.memory && bar(`Memory ${bytes(last.memory)}${of(last.memoryLimit)}`, memory, memory > 0.9),
    h("div", { class: "sparks" },
      sparkline("CPU", last.cpu !== undefined && percent(last.cpu) + (last.cpus ? ` of ${last.cpus}` : ""), samples.map((u) => [u.time, u.cpu]), now, 100),
      sparkline("GPU", gpu !== undefined && percent(gpu) + each, samples.map((u) => [u.time, mean(u.gpus)]), now, 100),
      sparkline("Traffic", moves && `${bytes(rates.at(-1)?.[1] ?? 0)}/s`, rates, now)),
    last.problem && tell("about", last.problem),
  ];
}

// rate is the traffic between two samples in bytes per second. A new forward starts at zero.
function rate(before, after) {
  const sum = (u) => (u.bytesIn ?? 0) + (u.bytesOut ?? 0);
  const seconds = (after.time - before.time) / 1000;
  return seconds > 0 ? Math.max(0, sum(after) - sum(before)) / seconds : 0;
}

const idleShown = 60_000; // ms: a pause is not yet idle time

function factsOf(s, now) {
  const pairs = [];
  if (s.job?.queue) pairs.push(["Queue", s.job.queue]);
  const choices = Object.entries(s.with ?? {});
  if (choices.length) pairs.push(["Chosen", choices.map(([k, v]) => `${k} ${v}`).join(", ")]);
  const last = model.usage.get(s.name)?.at(-1);
  const gpus = jobAlive(s, now) ? (last?.gpus ?? []).filter((g) => g.memory) : [];
  if (gpus.length) pairs.push(["GPU memory", gpus.map((g) => bytes(g.memory) + (g.memoryTotal ? ` of ${bytes(g.memoryTotal)}` : "")).join(" · ")]);
  const idle = last?.idleSince;
  if (idle && jobAlive(s, now) && now - Date.parse(idle) >= idleShown) pairs.push(["Idle since", `${clock(idle)}, for ${duration(now - Date.parse(idle))}`]);
  else if (s.since) pairs.push(["Since", clock(s.since)]);
  return pairs;
}

function forwardText(f) {
  const target = f.kind === "dynamic" ? "SOCKS proxy" : f.target;
  const arrow = f.kind === "remote" ? "←" : "→";
  const use = f.conns ? `${f.conns} open` : f.total ? "not in use" : "not used yet";
  return `${f.listen}${target ? ` ${arrow} ${target}` : ""}, ${f.error || f.note || use}`;
}

// actions are the main button, Log, and a menu with the rest.
function actions(s, now) {
  const { name } = s, alive = jobAlive(s, now), page = s.state === "ready" && !!s.url;
  const settled = ["down", "ended", "failed"].includes(s.state);
  const reconnects = s.state === "down" && alive; // what the button says: it never submits a job that the user did not ask for
  const start = reconnects ? "Reconnect" : "Start";
  const make = (label, what, run, kind) => button(label, { key: what, class: kind, "aria-label": `${what} ${name}` }, ({ target }) => run(target));
  const simple = (label, what, verb, kind, body) => make(label, what, (b) => act(b, `${what.toLowerCase()} ${name}`, pathOf("sessions", name, verb), body), kind);
  const leave = !alive ? "Disconnect" : jobWaits(s.job) ? "Disconnect (the job stays in the queue)" : "Disconnect (the job keeps running, charged)";
  const end = charged(s, now) && make("End the job…", "End the job of", (b) => endJobs(b, s), "danger");
  return h("div", { class: "actions", role: "group", "aria-label": `Actions for ${name}` },
    page && simple("Open", "Open", "open", "main"),
    s.state === "needs-login" && !waitsFor(s) && make("Log in…", "Log in for", (b) => act(b, `log in to ${s.host}`, pathOf("hosts", s.host, "login")), "main"),
    settled && make(start, start, (b) => startJob(b, s, reconnects), "main"),
    alive && s.idleEnd && simple("Keep", "Keep the job of", "extend", undefined, { idle: true }),
    s.job && make("Log", "Show the log of", () => { location.hash = `logs/${encodeURIComponent(name)}`; }),
    s.state === "failed" && !alive && simple("Dismiss", "Dismiss the failure of", "disconnect"),
    reconnects && end,
    (page || !reconnects || s.endpoints?.length > 0) && moreMenu(`More for ${name}`,
      (s.endpoints ?? []).map((e) => endpoint(name, e)),
      page && simple("Copy address", "Copy address of", "copy"),
      settled && !reconnects && make("Start with…", "Start with other choices:", (b) => startWith(b, s)),
      alive && s.job.state === "running" && s.job.end && make("Extend…", "Extend", (b) => extendJob(b, s)),
      !settled && simple(leave, "Disconnect", "disconnect"),
      !reconnects && end));
}

function endpoint(session, e) {
  const title = model.texts[session].titles[e.name];
  return button(`Open ${title}`, { key: e.name }, ({ target }) => act(target, `open ${title}`, pathOf("sessions", session, "open"), { endpoint: e.name }));
}
