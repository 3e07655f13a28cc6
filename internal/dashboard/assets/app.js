// The page: it gets in, keeps the stream of events open, and shows one view at a time.

import "./copy.js";
import { clear, report } from "./dialogs.js";
import { byId, closeButton, copyable, draw, h, tell } from "./dom.js";
import { drawHistory } from "./history.js";
import { connectButton, drawHosts } from "./hosts.js";
import { drawJobs, startJobs } from "./jobs.js";
import { closeLogs, drawLogs, openLogs, startLogs } from "./logs.js";
import { apply, changed, model, onChange, stopped } from "./model.js";
import { enter, isOwnServer, lines, Refused, request } from "./server.js";
import { drawSessions, foremost } from "./sessions.js";
import { clock, hintOf, hostLabel, jobEnded, sentence, troubleOf, waitsFor } from "./words.js";

const retry = 2000; // ms between attempts to reach the dashboard's server
const tick = 5000; // ms between drawings of what changes with time
const silence = 16_000; // ms without a sign of life after which the server counts as dead
const lists = 15_000; // ms between readings of the lists that have no events
const views = ["overview", "jobs", "logs", "history"];

let events = null; // ends the stream of events
let lost = false; // the server that knew this page has ended

async function main() {
  startLogs();
  startJobs();
  for (const draw of [drawAlive, drawNeeds, drawSessions, drawJobs, drawHosts, drawLogs, drawHistory]) onChange(draw);
  try {
    if (!(await enter())) return location.replace("/locked");
  } catch {
    return location.replace("/locked"); // the address was used already
  }
  route(false);
  addEventListener("hashchange", () => route(true));
  document.addEventListener("visibilitychange", watch);
  setInterval(beat, tick);
  setInterval(() => readLists(false), lists);
  watch();
}

function beat() {
  if (model.live && !document.hidden && Date.now() - model.seen > silence) {
    stopped("dashboard");
    watch();
  }
  changed();
}

// watch keeps the stream of events. While the page is hidden, nobody looks: the stream then
// is without the figures that the agent would have to measure.
async function watch() {
  events?.abort();
  if (document.hidden) closeLogs();
  const own = (events = new AbortController());
  while (!own.signal.aborted && !lost) {
    try {
      await lines(document.hidden ? "/api/events" : "/api/events?usage=1", own.signal, take);
    } catch (error) {
      if (own.signal.aborted) return;
      lost = error instanceof Refused && [401, 421].includes(error.status); // by a server that is another
    }
    if (own.signal.aborted) return;
    stopped("dashboard");
    await new Promise((resolve) => setTimeout(resolve, retry));
  }
}

const slow = ["status", "session", "session-gone"];
let reading = 0;

function take(line) {
  if (line.type === "hello" && !isOwnServer(line.server)) throw new Refused(421);
  apply(line);
  if (slow.includes(line.type)) {
    reading ||= setTimeout(() => { reading = 0; readLists(true); }, 300);
  }
}

async function readLists(all) {
  if (document.hidden || !model.live) return;
  const read = async (name, path, list = (answer) => answer) => {
    try {
      model[name] = list(await request(path)) ?? [];
    } catch {
      // the events say whether the agent is gone
    }
  };
  await Promise.all([read("jobs", "/api/jobs"), read("balances", "/api/balances"), all && read("runs", "/api/history", (answer) => { model.weeks = answer.weeks ?? []; return answer.runs; })]);
  changed();
}

// drawAlive turns the page grey and its buttons off when what it shows may no longer be true.
function drawAlive() {
  const dead = !model.live && !!model.gone;
  const link = byId("link");
  draw(link, model.live ? "Live" : !dead ? "Connecting…" : model.seen ? `Stopped, last known ${clock(model.seen)}` : "Stopped");
  link.dataset.kind = model.live ? "good" : "attention";
  const [kind, words] = dead ? ["trouble", "Stopped · "] : foremost(Date.now());
  document.title = `${words}tunctl dashboard`;
  const icon = ["good", "quiet"].includes(kind) ? "icon.svg" : `icon-${kind}.svg`;
  if (byId("icon").getAttribute("href") !== icon) byId("icon").href = icon;
  byId("alive").disabled = dead;
}

function drawNeeds() {
  const { live, gone, config, paused } = model, needs = [];
  const need = (key, text, ...more) => needs.push(h("div", { key, class: "notice", "data-kind": "attention" }, tell(undefined, text), more));
  if (!live && gone) {
    const what = gone === "agent" ? "The agent has stopped" : "The dashboard has stopped";
    need("gone", `${what}: this is what was last known. Jobs keep running. To open the dashboard again, choose Dashboard in the tray menu, or run this in a terminal:`, copyable("tunctl dashboard"));
  }
  if (live && config) {
    const [what, ...source] = config.message.split("\n");
    need("config", `The config file has errors; changes take effect once they are fixed: ${what}`, source.length > 0 && h("pre", { class: "output", tabindex: "0", role: "region", "aria-label": "Lines of the config file" }, source.join("\n")));
  }
  if (live && paused) need("paused", `${paused.message}. Starting a session connects again.`);
  for (const [host, s] of new Map([...model.sessions.values()].map((s) => [waitsFor(s), s]))) {
    if (!host) continue;
    const label = hostLabel(host.alias), trouble = troubleOf(s), named = trouble.startsWith(label) ? trouble : sentence(trouble);
    need(host.alias, [trouble.includes(label) ? named : `${label}: ${trouble}`, hintOf(host)].filter(Boolean).join(". "), connectButton(host));
  }
  for (const [id, notice] of model.notices) {
    const close = () => {
      model.notices.delete(id);
      changed();
    };
    if (holds(notice)) need(id, notice.text, closeButton(close));
    else model.notices.delete(id);
  }
  draw(byId("needs"), needs);
}

function holds({ kind, session, host, limit }) {
  const s = model.sessions.get(session), over = !s?.job || jobEnded(s.job);
  if (kind === "config") return false; // the status says it
  if (kind === "needs-login") return model.hosts.get(host)?.state === "up"; // it will be needed
  if (kind === "time-limit") return !over && s.job.end === limit;
  return kind === "idle" ? !over && (s.idle || s.idleEnd) : !session || !!s;
}

function route(focus) {
  const [view, ...name] = location.hash.slice(1).split("/");
  const chosen = views.includes(view) ? view : focus && view ? null : "overview";
  if (!chosen) return; // a link within the page
  for (const v of views) byId(v).hidden = v !== chosen;
  for (const a of document.querySelectorAll("nav a")) a.ariaCurrent = a.hash === `#${chosen}` ? "page" : null;
  if (focus) {
    clear();
    document.querySelector(`#${chosen} h2`).focus();
  }
  if (chosen === "logs") openLogs(name.join("/"));
  else closeLogs();
  changed();
}

main().catch((error) => report(null, "trouble", `The page does not work: ${error.message}`));
