// How the page says things: the same words as the tray and the terminal.

import { model } from "./model.js";

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

// clock is the time of day: "16:05", "Tue 16:05", "3 Mar 16:05".
export function clock(time, now = new Date()) {
  const at = new Date(time);
  const options = { hour: "2-digit", minute: "2-digit", hour12: false };
  if (at.toDateString() !== now.toDateString()) {
    Object.assign(options, Math.abs(at - now) < 6 * day ? { weekday: "short" } : { day: "numeric", month: "short" });
  }
  return at.toLocaleString("en-GB", options).replace(",", "");
}

export const sentence = (text) => text.charAt(0).toUpperCase() + text.slice(1);

const buttons = /(^|[;,] )((then|run) )*`tunctl (login|up|down|logs) [^`]*`( in a terminal| (re)?connects| (tries |asks )?again| tries now| ends the job| starts a new one| shows (the whole|its) log)?(?=;|$)/g;

// hintOf is what to do about a session or a host, but for what the buttons beside it do.
export const hintOf = ({ hint = "" }) => sentence(hint.replace(buttons, "").replace(/^; /, ""));

// waitsFor is the host that keeps a session from going on: it is not connected, does not respond or was logged out.
export function waitsFor(s) {
  const h = model.hosts.get(s.host);
  if (!h || h.asking || h.state === "connecting") return undefined;
  const waits = h.state === "down" ? s.state === "needs-login" : h.cause && s.cause?.startsWith(h.cause);
  return waits && (h.state !== "up" || h.notRespondingSince) ? h : undefined;
}

// troubleOf is what is wrong with the host that a session waits for.
export const troubleOf = (s) => model.hosts.get(s.host).cause || s.cause.split("; ")[0];

export function bytes(n) {
  const units = ["B", "kB", "MB", "GB", "TB"];
  let i = 0;
  for (; n >= 1000 && i < units.length - 1; i++) n /= 1000;
  return `${i && n < 10 ? n.toFixed(1) : Math.round(n)} ${units[i]}`;
}

export const count = (n, noun) => `${n} ${noun}${n === 1 ? "" : "s"}`;

export const number = (n) => n.toLocaleString("en", { maximumFractionDigits: 1 });

// The kind of a state gives its colour; its words are the agent's, and never depend on colour alone.
const sessionKinds = {
  connecting: "busy", submitting: "busy", queued: "busy", starting: "busy", reconnecting: "busy",
  ready: "good", "needs-login": "attention", failed: "trouble", down: "quiet", ended: "quiet",
};

export const sessionState = (s) => [sessionKinds[s.state] ?? "quiet", sentence(model.texts[s.name]?.state ?? s.state)];

const hostKinds = { connecting: "busy", "needs-login": "attention", up: "good", waiting: "attention", blocked: "trouble", down: "quiet" };

export function hostState(h) {
  const kind = h.asking || h.notRespondingSince ? "attention" : hostKinds[h.state] ?? "quiet";
  return [kind, sentence(model.hostTexts[h.alias]?.state ?? h.state)];
}

export function hostLabel(alias) {
  const hops = alias.split(",");
  const last = hops.pop();
  return hops.length ? `${last} through ${hops.join(", ")}` : last;
}

const jobKinds = {
  held: "attention", queued: "busy", configuring: "busy", running: "good", preempted: "attention",
  failed: "trouble", oom: "trouble", nodefail: "trouble",
  completing: "quiet", finished: "quiet", cancelled: "quiet", timeout: "quiet", neverran: "quiet", unknown: "quiet",
};

export const jobState = (job) => [jobKinds[job.state] ?? "quiet", sentence(model.words[job.state] ?? job.state)];

const waiting = ["held", "queued", "configuring"];
const over = ["finished", "failed", "cancelled", "timeout", "oom", "nodefail", "preempted", "neverran"];

export const jobWaits = (job) => waiting.includes(job.state);
export const jobEnded = (job) => over.includes(job.state);

// jobAlive reports whether a session has a job. That of one that is down counts until its time limit.
export function jobAlive(s, now) {
  if (!s.job || jobEnded(s.job)) return false;
  return s.state !== "down" || !s.job.end || Date.parse(s.job.end) > now;
}

const questions = {
  password: "your password", passphrase: "the passphrase of your key", question: "an answer", hostkey: "whether to trust its key",
  confirm: "a confirmation", page: "a login in the browser",
};

export const question = (kind) => questions[kind] ?? "an answer";
