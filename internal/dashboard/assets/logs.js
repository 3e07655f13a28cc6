// The live log of a session's job, without its secrets.

import { byId, el, setText } from "./dom.js";
import { model } from "./model.js";
import { lines, Refused } from "./server.js";

const most = 5000; // lines that are kept, and shown

let shown = ""; // the session whose log is shown
let wanted = ""; // the one that the address names
let stream = null; // ends the log's stream
let kept = []; // complete lines
let rest = ""; // the last line, still without its end
let dropped = false; // whether there were more lines
let state = "";
let scheduled = false;

// steering is what would colour a terminal or move its cursor, and what changes the direction
// of writing.
const steering = /\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|[\u202a-\u202e\u2066-\u2069]/g;

export function startLogs() {
  byId("log-session").addEventListener("change", (event) => { location.hash = `logs/${encodeURIComponent(event.target.value)}`; });
  byId("log-search").addEventListener("input", drawLog);
  byId("log-follow").addEventListener("change", drawLog);
}

// openLogs shows the log of a session, or of the first that has one.
export function openLogs(name) {
  wanted = name;
  drawLogs();
}

// closeLogs ends the stream: nobody looks.
export function closeLogs() {
  stream?.abort();
  stream = null;
  shown = "";
}

// drawLogs keeps the list of sessions, and follows the log of the chosen one while its view
// is open.
export function drawLogs() {
  if (byId("logs").hidden || document.hidden) return;
  const names = [...model.sessions.values()].filter((s) => s.job).map((s) => s.name);
  const list = byId("log-session");
  if (names.join("\n") !== [...list.options].map((o) => o.value).join("\n")) {
    list.replaceChildren(...names.map((n) => el("option", { value: n }, n)));
  }
  const name = names.includes(wanted) ? wanted : names[0] ?? "";
  if (list.value !== name) list.value = name;
  if (name !== shown) follow(name);
  if (!name) say("No session has a job with a log.");
}

async function follow(name) {
  stream?.abort();
  shown = name;
  kept = [];
  rest = "";
  dropped = false;
  draw();
  if (!name) return;
  const own = (stream = new AbortController());
  byId("log").setAttribute("aria-label", `Log of ${name}`);
  say(`Reading the log of ${name}…`);
  try {
    await lines(`/api/log?session=${encodeURIComponent(name)}`, own.signal, take);
    if (stream === own) say("The log has ended.");
  } catch (error) {
    if (stream !== own || own.signal.aborted) return;
    say(error instanceof Refused ? `${error.message}${error.hint ? `; ${error.hint}` : ""}`.replaceAll("`", "") : "The connection to the dashboard was lost.");
  }
}

function take(chunk) {
  if (chunk.type === "error") {
    say(chunk.error.message);
    return;
  }
  if (chunk.restarted) {
    kept = [];
    rest = "";
    dropped = false;
  }
  if (chunk.offset > 0 && !kept.length && !rest) dropped = true; // it begins with its last lines
  const text = chunk.base64 ? new TextDecoder().decode(Uint8Array.from(atob(chunk.base64), (c) => c.charCodeAt(0))) : chunk.text;
  const parts = (rest + text.replace(steering, "")).split("\n");
  rest = parts.pop();
  for (const part of parts) kept.push(lastOf(part));
  if (kept.length > most) {
    kept = kept.slice(-most);
    dropped = true;
  }
  say("");
  draw();
}

// lastOf is what a terminal shows of a line that a program wrote over and over.
const lastOf = (line) => line.replace(/\r+$/, "").split("\r").pop();

function draw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    drawLog();
  });
}

function drawLog() {
  const log = byId("log"), search = byId("log-search").value.trim().toLowerCase();
  const all = rest ? [...kept, lastOf(rest)] : kept;
  if (!search) setText(log, all.join("\n"));
  else log.replaceChildren(...all.filter((l) => l.toLowerCase().includes(search)).flatMap((l) => [...marked(l, search), "\n"]));
  const found = search ? all.filter((l) => l.toLowerCase().includes(search)).length : 0;
  const counted = search ? `${found} of ${dropped ? "the last " : ""}${all.length} lines match.` : `${all.length} ${all.length === 1 ? "line" : "lines"}${dropped ? ", the last ones" : ""}.`;
  setText(byId("log-status"), state || (shown ? counted : ""));
  if (byId("log-follow").checked) log.scrollTop = log.scrollHeight;
}

// marked is a line with what was searched for in marks.
function marked(line, search) {
  const parts = [];
  const lower = line.toLowerCase();
  let from = 0;
  for (let at = lower.indexOf(search); at >= 0; at = lower.indexOf(search, from)) {
    parts.push(line.slice(from, at), el("mark", {}, line.slice(at, at + search.length)));
    from = at + search.length;
  }
  return [...parts, line.slice(from)];
}

function say(text) {
  state = text;
  draw();
}
