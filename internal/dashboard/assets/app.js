// The page: it gets in, keeps the stream of events open, and shows one view at a time.

import { act, complain, say } from "./dialogs.js";
import { byId, el, setText, show, sync } from "./dom.js";
import { drawHistory } from "./history.js";
import { drawHosts } from "./hosts.js";
import { closeLogs, drawLogs, openLogs, startLogs } from "./logs.js";
import { apply, changed, model, onChange } from "./model.js";
import { drawQueue } from "./queue.js";
import { enter, forget, lines, Refused, request } from "./server.js";
import { drawSessions } from "./sessions.js";

const retry = 2000; // ms between attempts to reach the dashboard's server
const tick = 10_000; // ms between drawings of what changes with time
const lists = 15_000; // ms between readings of the lists that have no events
const views = ["overview", "logs", "history"];

let events = null; // ends the stream of events
let locked = false;

async function main() {
  startLogs();
  for (const draw of [drawLink, drawNotices, drawSessions, drawQueue, drawHosts, drawLogs, drawHistory]) onChange(draw);
  try {
    if (!(await enter())) return lock("It was opened without one.");
  } catch (error) {
    return lock(`${error.message}.`);
  }
  route(false);
  addEventListener("hashchange", () => route(true));
  document.addEventListener("visibilitychange", watch);
  setInterval(changed, tick);
  setInterval(() => readLists(false), lists);
  watch();
}

// lock says that this page cannot be used, and how to get one that can.
function lock(why) {
  locked = true;
  forget();
  events?.abort();
  closeLogs();
  for (const view of views) show(byId(view), false);
  setText(byId("locked-why"), why.charAt(0).toUpperCase() + why.slice(1));
  setText(byId("link"), "");
  show(byId("locked"), true);
  byId("locked-title").focus();
}

// watch keeps the stream of events. While the page is hidden, nobody looks: the stream then
// is without the figures that the agent would have to measure.
async function watch() {
  events?.abort();
  if (document.hidden) closeLogs();
  const own = (events = new AbortController());
  readLists(true);
  while (!own.signal.aborted && !locked) {
    try {
      await lines(document.hidden ? "/api/events" : "/api/events?usage=1", own.signal, take);
    } catch (error) {
      if (own.signal.aborted) return;
      if (error instanceof Refused && error.status === 401) return lock(`${error.message}.`);
    }
    if (own.signal.aborted) return;
    model.reached = false;
    model.why = "dashboard";
    changed();
    await new Promise((resolve) => setTimeout(resolve, retry));
  }
}

// slow are the events after which the lists are read again.
const slow = ["status", "session", "session-gone"];
let reading = 0;

function take(line) {
  const notice = apply(line);
  if (notice) say(notice);
  if (slow.includes(line.type)) {
    reading ||= setTimeout(() => { reading = 0; readLists(true); }, 300);
  }
}

// readLists reads what has no events; the history changes only when a session does. Nothing
// is asked of a host.
async function readLists(all) {
  if (document.hidden || locked) return;
  const read = async (name, path, list = (answer) => answer) => {
    try {
      model[name] = list(await request(path)) ?? [];
    } catch (error) {
      if (error instanceof Refused && error.status === 401) lock(`${error.message}.`);
    }
  };
  await Promise.all([read("jobs", "/api/jobs"), read("balances", "/api/balances"), all && read("runs", "/api/history", (answer) => answer.runs)]);
  changed();
}

function drawLink() {
  if (locked) return;
  if (model.reached) setText(byId("link"), "Live");
  else if (model.why === "dashboard") setText(byId("link"), "The dashboard was closed; this page reconnects if it returns");
  else setText(byId("link"), model.why ? "The agent is not running" : "Connecting…");
  byId("link").dataset.kind = model.reached ? "good" : "attention";
}

// drawNotices shows what needs the person, above everything else.
function drawNotices() {
  if (locked) return;
  const list = [];
  if (!model.reached && model.why && model.why !== "dashboard") list.push({ id: "agent", text: "The background agent is not running. Jobs keep running without it.", label: "Start tunctl", path: "/api/agent/start" });
  if (model.reached && model.config) list.push({ id: "config", text: `The config file has errors; changes take effect once they are fixed: ${model.config.message}` });
  if (model.reached && model.paused) list.push({ id: "paused", text: `${model.paused.message}. Starting a session connects again.` });
  for (const h of model.reached ? model.hosts.values() : []) {
    if (h.asking) list.push({ id: `asks ${h.alias}`, text: `${h.alias} waits for your login. Answer ${model.prompts || "in the window that asks"}.` });
  }
  sync(needs, list, (n) => n.id, need);
}

const needs = el("div", { role: "status", class: "needs" });
byId("notices").before(needs);

function need(n) {
  const text = el("p");
  const root = el("div", { class: "notice attention" }, text);
  if (n.path) {
    const button = el("button", { type: "button", class: "main", onclick: () => act(button, "start tunctl", n.path) }, n.label);
    root.append(button);
  }
  return { root, update: (now) => setText(text, now.text) };
}

// route shows the view that the address names.
function route(focus) {
  if (locked) return;
  const [view, ...name] = location.hash.slice(1).split("/");
  const chosen = views.includes(view) ? view : focus && view ? null : "overview";
  if (!chosen) return; // a link within the page
  for (const v of views) show(byId(v), v === chosen);
  for (const a of document.querySelectorAll("nav a")) {
    if (a.hash === `#${chosen}`) a.setAttribute("aria-current", "page");
    else a.removeAttribute("aria-current");
  }
  if (focus) {
    byId("notices").replaceChildren();
    document.querySelector(`#${chosen} h2`).focus();
  }
  if (chosen === "logs") openLogs(decodeURIComponent(name.join("/")));
  else closeLogs();
  changed();
}

main().catch((error) => complain("The page does not work", error));
