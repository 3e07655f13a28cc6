// The hosts, each with its balances and quotas.

import { bar } from "./charts.js";
import { act } from "./dialogs.js";
import { button, byId, draw, facts, h, tell, unfold } from "./dom.js";
import { model } from "./model.js";
import { pathOf } from "./server.js";
import { clock, duration, hintOf, hostLabel, hostState, jobEnded, jobWaits, number, question, waitsFor } from "./words.js";

export function drawHosts(now) {
  const hosts = [...model.hosts.values()];
  draw(byId("hosts"), hosts.length ? h("div", { class: "cards" }, hosts.map((host) => card(host, now))) : tell("empty", "No host is in use."));
}

// connectButton has a host log in or try again.
export function connectButton({ alias, state }) {
  const again = ["waiting", "up"].includes(state);
  return button(again ? "Try now" : "Log in…", { key: "connect", class: "main", "aria-label": again ? `Try now to reach ${alias}` : `Log in to ${alias}` }, ({ target }) => act(target, `log in to ${alias}`, pathOf("hosts", alias, "login")));
}

function card(host, now) {
  const { alias } = host, label = hostLabel(alias), [kind, words] = hostState(host);
  const waited = [...model.sessions.values()].some((s) => waitsFor(s) === host); // the reason is above
  const cause = host.asking ? `It asks for ${question(host.asking)}. Answer in the window that asks.` : host.state === "up" || host.state === "down" || waited ? "" : host.cause;
  const jobs = countJobs(alias), known = factsOf(host, now);
  const paid = model.balances.find((b) => b.host === alias && b.balances?.length);
  const leave = host.state === "up" ? "Log out" : "Stop trying";
  const { channels = 0, maxChannels: most } = host;
  return h("article", { key: alias, class: "card host", "aria-label": label, "data-kind": kind },
    h("header", {}, h("h3", {}, label), h("p", { class: "state" }, words)),
    tell("cause", cause),
    !waited && tell("hint", hintOf(host)),
    jobs && h("a", { href: "#jobs" }, jobs),
    paid && h("div", { class: "bars" }, paid.balances.map(balanceBar)),
    paid && tell("about", `As of ${clock(paid.at)}`),
    known.length > 0 && unfold(`Details of ${label}`, "Details", facts(known), host.state === "up" && most > 0 && bar(`${channels} of ${most} SSH sessions in use`, channels / most, channels >= most)),
    h("div", { class: "actions" },
      !["up", "connecting"].includes(host.state) && connectButton(host),
      ["up", "waiting", "connecting"].includes(host.state) && button(leave, { key: leave, "aria-label": host.state === "up" ? `Log out of ${alias}` : `${leave} ${alias}` }, ({ target }) => act(target, `log out of ${alias}`, pathOf("hosts", alias, "logout")))));
}

function countJobs(alias) {
  const jobs = model.jobs.filter((j) => j.host === alias).flatMap((j) => j.jobs).filter((j) => !jobEnded(j));
  const waiting = jobs.filter(jobWaits).length;
  const parts = [[jobs.length - waiting, "running"], [waiting, "waiting"]].filter(([n]) => n > 0).map(([n, what]) => `${n} ${what}`);
  return parts.length ? `Jobs: ${parts.join(", ")}` : "";
}

function factsOf(host, now) {
  const pairs = [], ends = host.certificateEnds;
  if (host.loginNode) pairs.push(["Login node", host.loginNode]);
  if (host.auth) pairs.push(["Login by", model.hostTexts[host.alias].login]);
  if (ends) {
    const left = Date.parse(ends) - now;
    pairs.push(["Certificate", left > 0 ? `ends ${clock(ends)}, in ${duration(left)}` : `ended ${clock(ends)}`]);
  }
  if (host.rttMs) pairs.push(["Round trip", host.rttMs < 1 ? "under 1 ms" : `${Math.round(host.rttMs)} ms`]);
  if (host.via?.length) pairs.push(["Through", host.via.join(", ")]);
  if (host.since) pairs.push(["Since", clock(host.since)]);
  return pairs;
}

function balanceBar({ name, used, total, unit = "" }) {
  const fraction = total ? used / total : undefined;
  const of = total ? ` of ${number(total)}` : "";
  return bar(`${name}: ${number(used)}${of} ${unit} used`.replace("  ", " "), fraction, fraction > 0.9, `${name} ${unit}`);
}
