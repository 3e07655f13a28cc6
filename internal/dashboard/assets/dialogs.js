// Questions to the person, and what the page tells them.

import { button, byId, closeButton, commands, draw, h, tell } from "./dom.js";
import { model } from "./model.js";
import { pathOf, request } from "./server.js";
import { jobWaits, sentence } from "./words.js";

let asked = 0;

// ask shows a question and resolves to the values of its fields, or to null if the person
// declines. A field is { name, label, ask, value, choices, suggestions, placeholder, rare }: with
// choices a list, else a line; rare ones are folded. While accept fails, the dialog stays open.
// preview says what follows from the values, and whether its button was pressed.
export function ask({ title, text, yes, no = "Cancel", danger, fields = [], presets = [], accept, preview }) {
  const dialog = byId("dialog"), key = String(++asked), inputs = new Map(fields.map((f) => [f, input(f)]));
  const rare = fields.filter((f) => f.rare);
  let told = "", problem, previews = 0;
  return new Promise((resolve) => {
    const done = (answer) => {
      dialog.onclose = null;
      dialog.close();
      resolve(answer);
    };
    const form = () => dialog.querySelector("form");
    const values = () => Object.fromEntries([...new FormData(form())].map(([name, value]) => [name, value.trim()]));
    const concerns = (f) => !!f.ask && f.ask === problem?.hint;
    const label = (f) => h("label", { key: f.name }, h("span", {}, f.label), inputs.get(f), concerns(f) && wrong(problem.message));
    const fill = (choices) => {
      for (const [name, value] of Object.entries(choices)) if (form().elements.namedItem(name)) form().elements.namedItem(name).value = value;
      tellMore(false);
    };
    const paint = () => draw(dialog, h("form", { key, onsubmit: submit, onkeydown: choose, onchange: () => tellMore(false) },
      h("h2", { id: "dialog-title" }, title),
      text && h("p", { id: "dialog-text" }, commands(text)),
      h("div", { id: "dialog-fields" },
        presets.length > 0 && h("div", { class: "presets", role: "group", "aria-label": "As in an earlier run" },
          presets.map((p) => button(Object.entries(p).map(([k, v]) => `${k} ${v}`).join(", "), {}, () => fill(p)))),
        fields.filter((f) => !f.rare).map(label),
        rare.length > 0 && h("details", {}, h("summary", {}, "More"), rare.map(label)),
        preview && h("div", { class: "presets" }, button("When would it start?", {}, () => tellMore(true)), h("p", { class: "about", role: "status" }, told)),
        problem && !fields.some(concerns) && wrong([problem.message, problem.hint].filter(Boolean).join("; "))),
      h("div", { class: "actions" },
        h("button", { id: "dialog-yes", class: danger ? "danger" : "main" }, yes), button(no, { id: "dialog-no" }, () => done(null)))));
    const fail = (error) => {
      problem = error;
      paint();
      const field = form().querySelector("label:has(.wrong)");
      field?.closest("details")?.setAttribute("open", "");
      field?.control.focus();
    };
    const tellMore = async (pressed) => {
      if (!preview) return;
      const own = ++previews;
      if (pressed) told = "Asking the scheduler…";
      paint();
      try {
        const text = await preview(values(), pressed);
        if (own === previews) told = text ?? "";
        paint();
      } catch (error) {
        if (own !== previews) return;
        told = "";
        if (pressed || fields.some((f) => f.ask && f.ask === error.hint)) fail(error);
        else paint();
      }
    };
    const submit = async (event) => {
      event.preventDefault();
      if (form().ariaBusy) return;
      form().ariaBusy = "true";
      try {
        await accept?.(values());
        done(values());
      } catch (error) {
        fail(error);
      } finally {
        form().ariaBusy = null;
      }
    };
    const choose = (event) => {
      if (event.key !== "Enter" || event.target.tagName !== "SELECT") return;
      event.preventDefault();
      form().requestSubmit();
    };
    paint();
    dialog.onclose = () => done(null); // by Escape
    dialog.showModal();
    (form().querySelector("input, select") ?? byId("dialog-no")).focus(); // nothing is ended by a stray Enter
    tellMore(false);
  });
}

const wrong = (text) => h("span", { class: "wrong", role: "alert" }, sentence(text.replaceAll("`", "")));

function input({ name, value = "", choices = [], suggestions = [], placeholder }) {
  if (!choices.length) {
    const list = suggestions.length ? `of-${name}` : undefined;
    return [
      h("input", { name, value, placeholder, autocomplete: "off", spellcheck: "false", list }),
      list && h("datalist", { id: list }, suggestions.map((value) => h("option", { value }))),
    ];
  }
  const options = choices.map((c) => (Array.isArray(c) ? c : [c, c]));
  if (!options.some(([v]) => v === value)) options.unshift([value, value || "as the site has it"]);
  return h("select", { name }, options.map(([v, text]) => h("option", { value: v, selected: v === value ? "" : undefined }, text)));
}

export function clear() {
  for (const node of document.querySelectorAll(".result")) node.remove();
}

// report tells the result of an action in the card of its button or, with none, above the
// view. It stays until the next action.
export function report(place, kind, text, hint = "") {
  clear();
  const node = document.createElement("div");
  node.className = "result";
  node.dataset.kind = kind;
  draw(node, h("p", {}, commands(text)), tell("hint", hint), closeButton(() => node.remove()));
  (place?.closest(".card, .row") ?? byId("toast")).append(node);
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
  if (button.ariaDisabled) return;
  clear();
  button.ariaDisabled = "true"; // it keeps the focus
  try {
    const { text } = await request(path, body);
    if (text) report(button, "busy", text);
  } catch (error) {
    complain(button, what, error);
  } finally {
    button.ariaDisabled = null;
  }
}

// askEnd asks before jobs end.
export const askEnd = (what, text, several) => ask({
  title: `End ${what}?`, text, yes: several ? "End the jobs" : "End the job", no: several ? "Keep them" : "Keep it", danger: true,
});

export async function endJobs(button, s) {
  const { all = `job ${s.job?.id}`, others = [] } = model.texts[s.name];
  const text = !others.length && jobWaits(s.job) ? `Job ${s.job.id} of ${s.name} leaves the queue.` : `What runs of ${s.name} stops at once. Work that is not saved is lost.`;
  if (await askEnd(all, text, all.includes(" and "))) await act(button, `end ${all}`, pathOf("sessions", s.name, "end"));
}
