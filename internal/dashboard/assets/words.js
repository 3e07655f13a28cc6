// How the page says things: the same words as the tray and the terminal.

const second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;

// duration is a time span: "45 s", "12 min", "1 h 00 min", "2 d 3 h 00 min".
export function duration(ms) {
  ms = Math.max(0, ms);
  if (ms < minute - second / 2) return `${Math.round(ms / second)} s`;
  const minutes = Math.round(ms / minute), hours = Math.floor(minutes / 60), days = Math.floor(hours / 24);
  const two = String(minutes % 60).padStart(2, "0");
  if (days) return `${days} d ${hours % 24} h ${two} min`;
  return hours ? `${hours} h ${two} min` : `${minutes} min`;
}

// clock is the time of day, with the date unless it is today's.
export function clock(time, now = new Date()) {
  const at = new Date(time);
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (at.toDateString() !== now.toDateString()) Object.assign(options, { weekday: "short", day: "numeric", month: "short" });
  return at.toLocaleString("en-GB", options);
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

// hintOf is what to do about a session or a host, but for what the button beside it does.
export const hintOf = ({ hint = "" }) => (/^run `tunctl login /.test(hint) ? "" : sentence(hint));

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

// heldText says what waits inside a job for a connection, or how that ended within the last hour.
export function heldText(held, now) {
  const { streams, waiting, since, until, lost, cause } = held ?? {};
  const count = (n) => `${n} ${n === 1 ? "stream" : "streams"}`;
  if (streams && !until) return `Held: ${count(streams)}, ${bytes(waiting)} waiting`;
  if (!until || now - Date.parse(until) > hour) return "";
  const lasted = duration(Date.parse(until) - Date.parse(since));
  return lost ? `${count(lost)} inside the job ended after ${lasted} without a connection: ${cause}` : `Continued after ${lasted}; nothing was lost`;
}

export const number = (n) => n.toLocaleString("en", { maximumFractionDigits: 1 });

// The kind of a state gives its colour; its words never depend on colour alone.
const sessionStates = {
  down: ["quiet", "Not running"],
  connecting: ["busy", "Connecting"],
  "needs-login": ["attention", "Login needed"],
  submitting: ["busy", "Submitting the job"],
  queued: ["busy", "In the queue"],
  starting: ["busy", "Starting"],
  ready: ["good", "Ready"],
  reconnecting: ["attention", "Reconnecting"],
  ended: ["quiet", "Ended"],
  failed: ["trouble", "Failed"],
};

export function sessionState(s, now) {
  if (s.state === "down" && jobAlive(s, now)) return ["quiet", "Disconnected, the job may still run"];
  return sessionStates[s.state] ?? ["quiet", s.state];
}

const hostStates = {
  down: ["quiet", "Not connected"],
  connecting: ["busy", "Connecting"],
  "needs-login": ["attention", "Login needed"],
  up: ["good", "Connected"],
  waiting: ["attention", "Waiting"],
  blocked: ["trouble", "Blocked"],
};

export function hostState(h) {
  if (h.asking) return ["attention", "Waiting for your answer"];
  if (h.state === "up" && h.notRespondingSince) return ["attention", "Not responding"];
  return hostStates[h.state ?? "down"] ?? ["quiet", h.state];
}

// hostLabel is a host's name; that of a host behind others has the hops in it.
export function hostLabel(alias) {
  const hops = alias.split(",");
  const last = hops.pop();
  return hops.length ? `${last} through ${hops.join(", ")}` : last;
}

const jobStates = {
  held: ["attention", "Held"],
  queued: ["busy", "In the queue"],
  configuring: ["busy", "Node is being prepared"],
  running: ["good", "Running"],
  completing: ["quiet", "Ending"],
  unknown: ["quiet", "Not known"],
  finished: ["quiet", "Finished"],
  failed: ["trouble", "Failed"],
  cancelled: ["quiet", "Cancelled"],
  timeout: ["quiet", "Reached its time limit"],
  oom: ["trouble", "Ran out of memory"],
  nodefail: ["trouble", "Its node failed"],
  preempted: ["attention", "Preempted by another job"],
  neverran: ["quiet", "Never ran"],
};

export const jobState = (job) => jobStates[job.state] ?? ["quiet", job.state];

const waiting = ["held", "queued", "configuring"];
const over = ["finished", "failed", "cancelled", "timeout", "oom", "nodefail", "preempted", "neverran"];

export const jobWaits = (job) => waiting.includes(job.state);
export const jobEnded = (job) => over.includes(job.state);

// jobAlive reports whether a session has a job that runs or waits. The job of a session
// that is down is not watched: it counts until its time limit.
export function jobAlive(s, now) {
  if (!s.job || jobEnded(s.job)) return false;
  return s.state !== "down" || !s.job.end || Date.parse(s.job.end) > now;
}

const logins = {
  publickey: "SSH key", password: "password", "keyboard-interactive": "questions of the host",
  "gssapi-with-mic": "Kerberos ticket", hostbased: "this computer's key", none: "no login",
};

export const loginKind = (auth) => auth.split(",").map((a) => logins[a.trim()] ?? a.trim()).join(", then ");

const questions = {
  password: "your password", passphrase: "the passphrase of your key", question: "an answer", hostkey: "whether to trust its key",
  confirm: "a confirmation", page: "a login in the browser",
};

export const question = (kind) => questions[kind] ?? "an answer";
