// What every view needs to make elements and to change only what is different.

// el makes an element. Properties that begin with "on" are listeners, the rest attributes.
export function el(tag, properties = {}, ...children) {
  const node = document.createElement(tag);
  for (const [name, value] of Object.entries(properties)) {
    if (name.startsWith("on")) node.addEventListener(name.slice(2), value);
    else if (value !== undefined && value !== false) node.setAttribute(name, value === true ? "" : value);
  }
  node.append(...children);
  return node;
}

export const byId = (id) => document.getElementById(id);

export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function setAttribute(node, name, value) {
  if (node.getAttribute(name) !== value) node.setAttribute(name, value);
}

export function show(node, visible) {
  if (node.hidden === visible) node.hidden = !visible;
}

const rowsOf = new WeakMap();

// sync makes the children of parent those of items, in their order. A row stays the same
// element for as long as an item has its key, so that focus and selection survive.
// create returns a row: { root, update(item, more) }.
export function sync(parent, items, keyOf, create, more) {
  const old = rowsOf.get(parent) ?? new Map();
  const rows = new Map();
  for (const item of items) rows.set(keyOf(item), null);
  for (const [key, row] of old) if (!rows.has(key)) row.root.remove();
  let place = parent.firstElementChild;
  for (const item of items) {
    const key = keyOf(item);
    const row = old.get(key) ?? create(item);
    rows.set(key, row);
    row.update(item, more);
    if (row.root === place) place = place.nextElementSibling;
    else parent.insertBefore(row.root, place);
  }
  rowsOf.set(parent, rows);
}

// withCommands writes a text whose commands are between backquotes.
export function withCommands(node, text) {
  if (node.dataset.text === text) return;
  node.dataset.text = text;
  node.replaceChildren(...text.split("`").map((part, i) => (i % 2 ? el("code", {}, part) : part)));
}

export function fact([term]) {
  const value = el("dd");
  return { root: el("div", {}, el("dt", {}, term), value), update: ([, text]) => setText(value, text) };
}

// tell writes a text, if there is any.
export function tell(node, text) {
  withCommands(node, text);
  show(node, !!text);
}

export const copyable = (text) => el("span", { class: "command" }, el("code", {}, text), el("button", { type: "button", class: "copy", "aria-label": `Copy ${text}` }, "Copy"));

let menus = 0;
addEventListener("resize", () => document.querySelector(".menu:popover-open")?.hidePopover()); // its place is another

export function moreMenu(label, ...items) {
  const menu = el("div", { popover: "", class: "menu", id: `menu-${++menus}`, role: "group", "aria-label": label, onclick: () => menu.hidePopover() }, ...items);
  const button = el("button", { type: "button", "aria-label": label, popovertarget: menu.id }, "⋯");
  menu.addEventListener("beforetoggle", (event) => {
    if (event.newState !== "open") return;
    const { bottom, right } = button.getBoundingClientRect();
    menu.style.top = `${bottom + scrollY}px`;
    menu.style.setProperty("--right", `${right}px`);
  });
  menu.addEventListener("toggle", (event) => {
    if (event.newState === "open") menu.scrollIntoView({ block: "nearest" });
  });
  return el("span", { class: "more" }, button, menu);
}
