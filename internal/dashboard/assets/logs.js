// The live log of a job, without its secrets, in lines that the agent made safe.

import { complain } from "./dialogs.js";
import { byId, draw, h } from "./dom.js";
import { model } from "./model.js";
import { lines, Refused } from "./server.js";
import { count, hostLabel, jobWaits, sentence } from "./words.js";

const most = 5000; // lines that are kept, and shown
const retry = 5000; // ms until a log is followed again

let wanted = ""; // what the address names: SESSION, or HOST/JOB
let shown = ""; // what is shown, and of which of a session's jobs
let query = ""; // asks for it
let stream = null; // ends the log's stream
let came = []; // chunks that are not shown yet
let open = false; // the last line has not ended
let dropped = false; // whether there were more lines
let state = "";
let search = null; // what is searched for
let following = true;

const atEnd = (log) => log.scrollHeight - log.scrollTop - log.clientHeight < 8;

export function startLogs() {
  const log = byId("log");
  byId("log-session").addEventListener("change", (event) => { location.hash = `logs/${event.target.value}`; });
  byId("log-search").addEventListener("input", (event) => {
    const text = event.target.value.trim().replace(/[.*+?^${}()|[\]\\/]/g, "\\$&");
    search = text && new RegExp(`(${text})`, "giu");
    for (const row of log.children) fill(row);
    redraw();
  });
  log.addEventListener("scroll", () => follow(atEnd(log)));
  byId("log-follow").addEventListener("click", () => {
    follow(true);
    log.focus();
    redraw();
  });
  byId("log-save").addEventListener("click", save);
  new ResizeObserver(redraw).observe(log);
}

function follow(on) {
  following = on;
  byId("log-follow").hidden = on;
}

export function openLogs(name) {
  wanted = name;
  drawLogs();
}

export function closeLogs() {
  stream?.abort();
  stream = null;
  shown = "";
}

function named(address) {
  try {
    return address.split("/").map(decodeURIComponent);
  } catch {
    return [""]; // nothing that a link has
  }
}

// drawLogs keeps the list of logs, and reads the chosen one while its view is open.
export function drawLogs() {
  if (byId("logs").hidden || document.hidden) return;
  const all = [...model.sessions.values()].filter((s) => s.job).map((s) => [encodeURIComponent(s.name), s.name, s.job.id, s.job]);
  const [host, job] = named(wanted);
  if (job) all.push([wanted, `job ${job} on ${hostLabel(host)}`, job, model.jobs.find((x) => x.host === host)?.jobs.find((j) => j.id === job)]);
  const list = byId("log-session");
  draw(list, all.map(([value, name]) => h("option", { key: value, value }, name)));
  const [value = "", name = "", id = "", known] = all.find(([v]) => v === wanted) ?? all[0] ?? [];
  if (list.value !== value) list.value = value;
  if (`${value} ${id}` !== shown) read(value, name, id, known && jobWaits(known));
  if (!name) say("No session has a job with a log.");
}

// read follows a log until another one is shown or its job has ended.
async function read(value, name, id, waits) {
  stream?.abort();
  const own = (stream = new AbortController()), [host, job] = named(value);
  shown = `${value} ${id}`;
  query = new URLSearchParams(job ? { host, job } : { session: host });
  begin();
  follow(true);
  byId("log").setAttribute("aria-label", `Log of ${name}`);
  say(waits ? `The log of ${name} begins when it starts.` : `Reading the log of ${name}…`);
  for (let ended; name && stream === own; await new Promise((resolve) => setTimeout(resolve, retry))) {
    let first = true;
    try {
      await lines(`/api/log?${query}`, own.signal, (chunk) => {
        if (chunk.error) throw Object.assign(new Error(chunk.error.message), chunk.error);
        came.push({ ...chunk, first });
        first = false;
        ended = chunk.ended;
        say("");
      });
      if (ended) return say(`${sentence(ended)}: the log is complete.`);
      throw new Error("The connection was lost; the log is read again soon");
    } catch (error) {
      if (stream !== own || own.signal.aborted) return;
      say(`${error.message}${error.hint ? `; ${error.hint}` : ""}`.replaceAll("`", ""));
      if (job && error instanceof Refused) return; // to ask again would ask the scheduler
    }
  }
}

function begin() {
  byId("log").replaceChildren();
  open = dropped = false;
}

let scheduled = false;

function redraw() {
  if (scheduled) return;
  scheduled = true;
  requestAnimationFrame(() => {
    scheduled = false;
    drawLog();
  });
}

// drawLog adds what came. Lines that are shown stay the same elements: they may be selected.
function drawLog() {
  const log = byId("log");
  for (const chunk of came.splice(0)) {
    if (chunk.first || chunk.restarted) begin();
    dropped ||= chunk.first && chunk.offset > 0; // it begins with its last lines
    if (!chunk.lines?.length) continue;
    if (open) log.lastElementChild?.remove();
    log.append(...chunk.lines.map((line) => fill(Object.assign(document.createElement("div"), { line }))));
    open = chunk.open;
    for (; log.childElementCount > most; dropped = true) log.firstElementChild.remove();
  }
  const all = log.childElementCount, found = search && [...log.children].filter((row) => !row.hidden).length;
  const counted = search ? `${found} of ${dropped ? "the last " : ""}${all} lines match.` : `${count(all, "line")}${dropped ? ", the last ones" : ""}.`;
  draw(byId("log-status"), state || (shown ? counted : ""));
  if (following) log.scrollTop = log.scrollHeight;
}

function fill(row) {
  const words = (text) => (search ? text.split(search).map((part, i) => (i % 2 ? h("mark", {}, part) : part)) : text);
  draw(row, row.line.map(({ text, style }) => (style ? h("span", { class: style }, words(text)) : words(text))));
  row.hidden = !!search && !row.textContent.match(search);
  return row;
}

function say(text) {
  state = text;
  redraw();
}

async function save({ target }) {
  const parts = [];
  try {
    await lines(`/api/log?${query}&whole=1`, undefined, (chunk) => parts.push(chunk.base64 ? Uint8Array.from(atob(chunk.base64), (c) => c.charCodeAt(0)) : chunk.text ?? ""));
    const href = URL.createObjectURL(new Blob(parts, { type: "text/plain" }));
    Object.assign(document.createElement("a"), { href, download: `${byId("log-session").selectedOptions[0].text}.log` }).click();
    setTimeout(() => URL.revokeObjectURL(href), 60_000);
  } catch (error) {
    complain(target, "read the log", error);
  }
}
