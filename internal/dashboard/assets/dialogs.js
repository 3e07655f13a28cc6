// Questions to the person, and what the page tells them.

import { byId, el, withCommands } from "./dom.js";
import { request } from "./server.js";

// ask shows a question and resolves to the values of its fields, or to null if the person
// declines. A field is { name, label, value, choices }: with choices a list, else a line.
export function ask({ title, text, yes, no = "Cancel", danger = false, fields = [], presets = [] }) {
  const dialog = byId("dialog"), form = dialog.querySelector("form");
  byId("dialog-title").textContent = title;
  withCommands(byId("dialog-text"), text ?? "");
  byId("dialog-text").hidden = !text;
  byId("dialog-yes").textContent = yes;
  byId("dialog-yes").className = danger ? "danger" : "main";
  byId("dialog-no").textContent = no;
  const inputs = new Map(fields.map((f) => [f.name, input(f)]));
  byId("dialog-fields").replaceChildren(
    ...(presets.length ? [presetButtons(presets, inputs)] : []),
    ...fields.map((f) => el("label", {}, el("span", {}, f.label), inputs.get(f.name))),
  );
  dialog.showModal();
  (inputs.size ? [...inputs.values()][0] : byId("dialog-no")).focus(); // nothing is ended by a stray Enter
  return new Promise((resolve) => {
    const done = (answer) => {
      form.onsubmit = dialog.onclose = byId("dialog-no").onclick = null;
      dialog.close();
      resolve(answer);
    };
    form.onsubmit = (event) => {
      event.preventDefault();
      done(Object.fromEntries([...inputs].map(([name, node]) => [name, node.value.trim()])));
    };
    byId("dialog-no").onclick = () => done(null);
    dialog.onclose = () => done(null); // by Escape
  });
}

function input({ value = "", choices = [] }) {
  if (!choices.length) return el("input", { value, autocomplete: "off", spellcheck: "false" });
  const options = choices.map((c) => (Array.isArray(c) ? c : [c, c]));
  if (!options.some(([v]) => v === value)) options.unshift([value, value || "as the site has it"]);
  return el("select", {}, ...options.map(([v, label]) => el("option", { value: v, selected: v === value }, label)));
}

// presetButtons fill the fields as in an earlier run.
function presetButtons(presets, inputs) {
  const fill = (choices) => {
    for (const [name, node] of inputs) if (choices[name] !== undefined) node.value = choices[name];
  };
  const words = (choices) => Object.entries(choices).map(([k, v]) => `${k} ${v}`).join(", ");
  return el("div", { class: "presets", role: "group", "aria-label": "As in an earlier run" },
    ...presets.map((p) => el("button", { type: "button", onclick: () => fill(p) }, words(p))));
}

// say shows a message until the next one.
export function say(text) {
  message(byId("notices"), "notice", text);
}

// complain shows an error with its way out.
export function complain(what, error) {
  message(byId("errors"), "notice trouble", `${what}: ${error.message}`, error.hint);
}

function message(place, kind, text, hint) {
  const words = el("p");
  withCommands(words, text);
  const node = el("div", { class: kind }, words);
  if (hint) {
    const more = el("p", { class: "hint" });
    withCommands(more, hint);
    node.append(more);
  }
  node.append(el("button", { type: "button", class: "close", "aria-label": "Close this message", onclick: () => node.remove() }, "×"));
  place.replaceChildren(node);
}

// act sends an action and shows its answer. The button is disabled meanwhile.
export async function act(button, what, path, body = {}) {
  if (button.getAttribute("aria-disabled") === "true") return;
  button.setAttribute("aria-disabled", "true"); // it keeps the focus
  try {
    const { text } = await request(path, body);
    byId("errors").replaceChildren();
    if (text) say(text);
    return true;
  } catch (error) {
    complain(`Could not ${what}`, error);
    return false;
  } finally {
    button.removeAttribute("aria-disabled");
  }
}

// endJob asks before it ends a job.
export async function endJob(button, job, name, path) {
  const answer = await ask({
    title: `End job ${job.id}?`,
    text: job.state === "running" ? `Job ${job.id} of ${name} stops at once. Work that is not saved is lost.` : `Job ${job.id} of ${name} leaves the queue.`,
    yes: "End the job", no: "Keep it", danger: true,
  });
  if (answer) await act(button, `end job ${job.id}`, path);
}
