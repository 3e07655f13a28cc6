// The hosts, with balances and quotas.

import { bar } from "./charts.js";
import { act } from "./dialogs.js";
import { byId, el, setAttribute, setText, show, sync, withCommands } from "./dom.js";
import { model } from "./model.js";
import { clock, duration, hostLabel, hostState, loginKind, number, question } from "./words.js";

export function drawHosts() {
  const hosts = [...model.hosts.values()];
  show(byId("hosts-empty"), !hosts.length);
  sync(byId("hosts"), hosts, (h) => h.alias, card);
  const balances = model.balances.filter((b) => b.balances?.length);
  show(byId("balances-section"), balances.length > 0);
  sync(byId("balances"), balances, (b) => b.host, balanceCard);
}

function card({ alias }) {
  const state = el("p", { class: "state" });
  const cause = el("p", { class: "cause" });
  const asks = el("p", { class: "cause" });
  const hint = el("p", { class: "hint" });
  const facts = el("dl");
  const channels = bar();
  const button = (label, what, verb) => {
    const node = el("button", { type: "button", "aria-label": `${what} ${alias}`, onclick: () => act(node, `${what.toLowerCase()} ${alias}`, `/api/hosts/${encodeURIComponent(alias)}/${verb}`) }, label);
    return node;
  };
  const login = button("Log in…", "Log in to", "login"), logout = button("Log out", "Log out of", "logout");
  login.className = "main";
  const root = el("article", { class: "card host", "aria-label": hostLabel(alias) },
    el("header", {}, el("h3", {}, hostLabel(alias)), state), cause, asks, hint, facts, channels.root, el("div", { class: "actions" }, login, logout));
  return {
    root,
    update(h) {
      const [kind, words] = hostState(h);
      setAttribute(root, "data-kind", kind);
      setText(state, words);
      const told = h.state !== "up" && h.state !== "down" && !h.asking ? h.cause ?? "" : "";
      withCommands(cause, told);
      show(cause, !!told);
      setText(asks, h.asking ? `It asks for ${question(h.asking)}. Answer ${model.prompts || "in the window that asks"}.` : "");
      show(asks, !!h.asking);
      withCommands(hint, h.hint ?? "");
      show(hint, !!h.hint);
      sync(facts, factsOf(h), ([term]) => term, fact);
      show(channels.root, h.state === "up" && !!h.maxChannels);
      if (h.maxChannels) {
        channels.update(`${h.channels ?? 0} of ${h.maxChannels} SSH sessions in use`, (h.channels ?? 0) / h.maxChannels, h.channels >= h.maxChannels ? "attention" : "");
      }
      show(login, h.state !== "up" && h.state !== "connecting");
      show(logout, h.state !== "down" && h.state !== undefined);
    },
  };
}

function factsOf(h) {
  const now = Date.now();
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

function fact([term]) {
  const value = el("dd");
  return { root: el("div", {}, el("dt", {}, term), value), update: ([, text]) => setText(value, text) };
}

function balanceCard({ host }) {
  const at = el("p", { class: "about" });
  const bars = el("div", { class: "bars" });
  const root = el("article", { class: "card", "aria-label": `Balance and quota of ${hostLabel(host)}` }, el("h3", {}, hostLabel(host)), bars, at);
  return {
    root,
    update(b) {
      setText(at, `As of ${clock(b.at)}`);
      sync(bars, b.balances, (x) => `${x.name} ${x.unit ?? ""}`, balanceBar);
    },
  };
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
