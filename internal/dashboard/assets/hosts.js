// The hosts, each with its balances and quotas.

import { bar } from "./charts.js";
import { act } from "./dialogs.js";
import { byId, el, fact, setAttribute, setText, show, sync, tell } from "./dom.js";
import { model } from "./model.js";
import { clock, duration, hintOf, hostLabel, hostState, jobEnded, jobWaits, loginKind, number, question, waitsFor } from "./words.js";

export function drawHosts(now) {
  const hosts = [...model.hosts.values()];
  show(byId("hosts-empty"), !hosts.length);
  sync(byId("hosts"), hosts, (h) => h.alias, card, now);
}

export const connectWords = { "needs-login": "Log in…", waiting: "Try now" };

function card({ alias }) {
  const state = el("p", { class: "state" });
  const cause = el("p", { class: "cause" });
  const hint = el("p", { class: "hint" });
  const jobs = el("a", { href: "#jobs" });
  const bars = el("div", { class: "bars" });
  const at = el("p", { class: "about" });
  const facts = el("dl");
  const channels = bar();
  const details = el("details", {}, el("summary", { "aria-label": `Details of ${hostLabel(alias)}` }, "Details"), facts, channels.root);
  const button = (label, what, verb) => {
    const node = el("button", { type: "button", "aria-label": `${what} ${alias}`, onclick: () => act(node, `${what.toLowerCase()} ${alias}`, `/api/hosts/${encodeURIComponent(alias)}/${verb}`) }, label);
    return node;
  };
  const login = button("Connect", "Log in to", "login"), logout = button("Log out", "Log out of", "logout");
  login.className = "main";
  const root = el("article", { class: "card host", "aria-label": hostLabel(alias) },
    el("header", {}, el("h3", {}, hostLabel(alias)), state), cause, hint, jobs, bars, at, details, el("div", { class: "actions" }, login, logout));
  return {
    root,
    update(h, now) {
      const [kind, words] = hostState(h);
      setAttribute(root, "data-kind", kind);
      setText(state, words);
      const waited = [...model.sessions.values()].some((s) => waitsFor(s) === h); // the reason is above
      const told = h.asking ? `It asks for ${question(h.asking)}. Answer in the window that asks.` : h.state === "up" || h.state === "down" || waited ? "" : h.cause ?? "";
      tell(cause, told);
      tell(hint, waited ? "" : hintOf(h));
      tell(jobs, countJobs(alias));
      const known = model.balances.find((b) => b.host === alias && b.balances?.length);
      sync(bars, known?.balances ?? [], (x) => `${x.name} ${x.unit ?? ""}`, balanceBar);
      tell(at, known ? `As of ${clock(known.at)}` : "");
      const list = factsOf(h, now);
      sync(facts, list, ([term]) => term, fact);
      show(details, list.length > 0);
      show(channels.root, h.state === "up" && !!h.maxChannels);
      if (h.maxChannels) {
        channels.update(`${h.channels ?? 0} of ${h.maxChannels} SSH sessions in use`, (h.channels ?? 0) / h.maxChannels, h.channels >= h.maxChannels ? "attention" : "");
      }
      setText(login, connectWords[h.state] ?? "Connect");
      setAttribute(login, "aria-label", `${h.state === "needs-login" ? "Log in to" : connectWords[h.state] ?? "Connect"} ${alias}`);
      show(login, h.state !== "up" && h.state !== "connecting");
      const leave = h.state === "up" ? "Log out" : "Stop trying";
      setText(logout, leave);
      setAttribute(logout, "aria-label", h.state === "up" ? `Log out of ${alias}` : `Stop trying ${alias}`);
      show(logout, ["up", "waiting", "connecting"].includes(h.state));
    },
  };
}

function countJobs(alias) {
  const jobs = model.jobs.filter((h) => h.host === alias).flatMap((h) => h.jobs).filter((j) => !jobEnded(j));
  const waiting = jobs.filter(jobWaits).length;
  const parts = [[jobs.length - waiting, "running"], [waiting, "waiting"]].filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  return parts.length ? `Jobs: ${parts.join(", ")}` : "";
}

function factsOf(h, now) {
  const list = [];
  if (h.loginNode) list.push(["Login node", h.loginNode]);
  if (h.auth) list.push(["Login by", loginKind(h.auth)]);
  if (h.certificateEnds) {
    const left = Date.parse(h.certificateEnds) - now;
    list.push(["Certificate", left > 0 ? `ends ${clock(h.certificateEnds)}, in ${duration(left)}` : `ended ${clock(h.certificateEnds)}`]);
  }
  if (h.rttMs) list.push(["Round trip", h.rttMs < 1 ? "under 1 ms" : `${Math.round(h.rttMs)} ms`]);
  if (h.via?.length) list.push(["Through", h.via.join(", ")]);
  if (h.since) list.push(["Since", clock(h.since)]);
  return list;
}

function balanceBar() {
  const b = bar();
  return {
    root: b.root,
    update({ name, used, total, unit = "" }) {
      const fraction = total ? used / total : undefined;
      const of = total ? ` of ${number(total)}` : "";
      b.update(`${name}: ${number(used)}${of} ${unit} used`.replace("  ", " "), fraction, fraction > 0.9 ? "attention" : "");
    },
  };
}
