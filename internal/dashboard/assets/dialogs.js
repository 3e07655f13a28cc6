// Questions to the person, and what the page tells them.

import { byId, el, withCommands } from "./dom.js";
import { model } from "./model.js";
import { request } from "./server.js";
import { jobWaits, sentence } from "./words.js";

// ask shows a question and resolves to the values of its fields, or to null if the person
// declines. A field is { name, label, value, choices, suggestions, placeholder, rare }: with
// choices a list, else a line; rare ones are folded. While accept fails, the dialog stays open. below
// makes what is under the fields.
export function ask({ title, text, yes, no = "Cancel", danger = false, fields = [], presets = [], accept, below }) {
  const dialog = byId("dialog"), form = dialog.querySelector("form");
  byId("dialog-title").textContent = title;
  withCommands(byId("dialog-text"), text ?? "");
  byId("dialog-text").hidden = !text;
  byId("dialog-yes").textContent = yes;
  byId("dialog-yes").className = danger ? "danger" : "main";
  byId("dialog-no").textContent = no;
  const inputs = new Map(fields.map((f) => [f.name, input(f)]));
  const label = (f) => el("label", {}, el("span", {}, f.label), inputs.get(f.name));
  const rare = fields.filter((f) => f.rare);
  byId("dialog-fields").replaceChildren(
    ...(presets.length ? [presetButtons(presets, inputs)] : []),
    ...fields.filter((f) => !f.rare).map(label),
    ...(rare.length ? [el("details", {}, el("summary", {}, "More"), ...rare.map(label))] : []),
    ...(below ? [below(() => values(inputs), (error) => wrong(fields, inputs, error))] : []),
    ...fields.filter((f) => f.suggestions?.length).map((f) => el("datalist", { id: `of-${f.name}` }, ...f.suggestions.map((value) => el("option", { value })))),
  );
  dialog.showModal();
  (inputs.size ? [...inputs.values()][0] : byId("dialog-no")).focus(); // nothing is ended by a stray Enter
  return new Promise((resolve) => {
    const done = (answer) => {
      form.onsubmit = form.onkeydown = dialog.onclose = byId("dialog-no").onclick = byId("dialog-fields").onchange = null;
      dialog.close();
      resolve(answer);
    };
    form.onsubmit = async (event) => {
      event.preventDefault();
      if (form.ariaBusy) return;
      form.ariaBusy = "true";
      try {
        await accept?.(values(inputs));
        done(values(inputs));
      } catch (error) {
        wrong(fields, inputs, error);
      } finally {
        form.ariaBusy = null;
      }
    };
    form.onkeydown = (event) => {
      if (event.key !== "Enter" || event.target.tagName !== "SELECT") return;
      event.preventDefault();
      form.requestSubmit();
    };
    byId("dialog-no").onclick = () => done(null);
    dialog.onclose = () => done(null); // by Escape
  });
}

const values = (inputs) => Object.fromEntries([...inputs].map(([name, node]) => [name, node.value.trim()]));

// wrong shows an error at the field that it is about, which its hint asks for; else below all.
function wrong(fields, inputs, error) {
  for (const node of document.querySelectorAll(".wrong")) node.remove();
  const node = inputs.get(fields.find((f) => f.ask && f.ask === error.hint)?.name);
  const text = node ? error.message : [error.message, error.hint].filter(Boolean).join("; ");
  (node?.parentNode ?? byId("dialog-fields")).append(el("span", { class: "wrong", role: "alert" }, sentence(text.replaceAll("`", ""))));
  node?.closest("details")?.setAttribute("open", "");
  node?.focus();
}

function input({ name, value = "", choices = [], suggestions = [], placeholder }) {
  if (!choices.length) {
    return el("input", { value, placeholder, autocomplete: "off", spellcheck: "false", list: suggestions.length ? `of-${name}` : undefined });
  }
  const options = choices.map((c) => (Array.isArray(c) ? c : [c, c]));
  if (!options.some(([v]) => v === value)) options.unshift([value, value || "as the site has it"]);
  return el("select", {}, ...options.map(([v, label]) => el("option", { value: v, selected: v === value }, label)));
}

function presetButtons(presets, inputs) {
  const fill = (choices) => {
    for (const [name, node] of inputs) if (choices[name] !== undefined) node.value = choices[name];
    byId("dialog-fields").onchange?.();
  };
  const words = (choices) => Object.entries(choices).map(([k, v]) => `${k} ${v}`).join(", ");
  return el("div", { class: "presets", role: "group", "aria-label": "As in an earlier run" },
    ...presets.map((p) => el("button", { type: "button", onclick: () => fill(p) }, words(p))));
}

export function clear() {
  for (const node of document.querySelectorAll(".result")) node.remove();
}

// report tells the result of an action in the card of its button or, with none, above the
// view. It stays until the next action.
export function report(button, kind, text, hint = "") {
  clear();
  const place = button?.closest(".card, .row") ?? byId("toast");
  const words = el("p");
  withCommands(words, text);
  const node = el("div", { class: `result ${kind}` }, words);
  if (hint) {
    const more = el("p", { class: "hint" });
    withCommands(more, hint);
    node.append(more);
  }
  node.append(el("button", { type: "button", class: "close", "aria-label": "Close this message", onclick: () => node.remove() }, "×"));
  place.append(node);
  byId("told").textContent = `${text} ${hint}`.replaceAll("`", "");
}

// complain reports an error with its way out. What could not be done is said once.
export function complain(button, what, error) {
  const said = error.message.toLowerCase().startsWith("could not ");
  const text = said ? error.message : `could not ${what}: ${error.message}`;
  report(button, "trouble", sentence(text), sentence(error.hint ?? ""));
}

// act sends an action and shows its answer. The button is disabled meanwhile.
export async function act(button, what, path, body = {}) {
  if (button.getAttribute("aria-disabled") === "true") return;
  clear();
  button.setAttribute("aria-disabled", "true"); // it keeps the focus
  try {
    const { text } = await request(path, body);
    if (text) report(button, "", text);
    return true;
  } catch (error) {
    complain(button, what, error);
    return false;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

export async function endJobs(button, s, path) {
  const { all = `job ${s.job?.id}`, others = [] } = model.texts.get(s.name) ?? {};
  const several = all.includes(" and ");
  const answer = await ask({
    title: `End ${all}?`,
    text: !others.length && jobWaits(s.job) ? `Job ${s.job.id} of ${s.name} leaves the queue.` : `What runs of ${s.name} stops at once. Work that is not saved is lost.`,
    yes: several ? "End the jobs" : "End the job", no: several ? "Keep them" : "Keep it", danger: true,
  });
  if (answer) await act(button, `end ${all}`, path);
}
