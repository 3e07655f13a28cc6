// Views describe what they show. The page is made so, and only what is different changes: focus,
// selection and what is unfolded survive.

export const byId = (id) => document.getElementById(id);

// h describes an element. Functions, booleans and objects are properties of it, the rest attributes.
// With a key, it stays the same element when it moves among its siblings.
export const h = (tag, { key, ...properties }, ...children) => ({ tag, key, properties, children });

const drawn = new WeakMap(); // the nodes that were described in an element, by their keys

// draw makes the children of an element those that are described: elements, texts, lists of them,
// or nothing. Nodes that others have added stay.
export function draw(parent, ...children) {
  const old = drawn.get(parent) ?? new Map(), nodes = new Map(keyed(children, ""));
  for (const [key, node] of old) {
    if (nodes.has(key) && nodes.get(key).tag === node.localName) continue;
    old.delete(key);
    node.remove();
  }
  let place = parent.firstChild;
  for (const [key, described] of nodes) {
    const node = old.get(key) ?? create(described.tag);
    nodes.set(key, node);
    change(node, described);
    if (node === place) place = place.nextSibling;
    else parent.insertBefore(node, place);
  }
  drawn.set(parent, nodes);
}

function* keyed(children, path) {
  for (const [i, child] of children.entries()) {
    if (Array.isArray(child)) yield* keyed(child, `${path}${i} `);
    else if (child) yield [path + (child.key ?? i), child];
  }
}

function create(tag) {
  if (!tag) return new Text();
  return ["svg", "path"].includes(tag) ? document.createElementNS("http://www.w3.org/2000/svg", tag) : document.createElement(tag);
}

function change(node, described) {
  if (node.described === described) return;
  node.described = described;
  if (!described.tag) {
    node.data = described;
    return;
  }
  for (const [name, value] of Object.entries(described.properties)) {
    if (value === undefined) node.removeAttribute(name);
    else if (typeof value === "object") Object.assign(node[name], value);
    else if (typeof value === "string" && node.getAttribute(name) !== value) node.setAttribute(name, value);
    else if (typeof value !== "string" && node[name] !== value) node[name] = value;
  }
  draw(node, ...described.children);
}

// commands is a text whose commands are between backquotes.
export const commands = (text) => text.split("`").map((part, i) => (i % 2 ? h("code", {}, part) : part));

// tell is a paragraph, if there is anything to say.
export const tell = (kind, text) => text && h("p", { class: kind }, commands(text));

export const list = (label, items) => items.length > 0 && h("ul", { class: "forwards", "aria-label": label }, items.map((item) => h("li", {}, item)));

export const facts = (pairs) => pairs.length > 0 && h("dl", {}, pairs.map(([term, text]) => h("div", { key: term }, h("dt", {}, term), h("dd", {}, text))));

export const unfold = (label, title, ...children) => h("details", {}, h("summary", { "aria-label": label }, title), children);

export const button = (label, properties, onclick) => h("button", { type: "button", ...properties, onclick }, label);

export const closeButton = (onclick) => button("×", { class: "close", "aria-label": "Close this message" }, onclick);

export const copyable = (text) => h("span", { key: text, class: "command" }, h("code", {}, text), button("Copy", { class: "copy", "aria-label": `Copy ${text}` }));

addEventListener("resize", () => document.querySelector(".menu:popover-open")?.hidePopover()); // its place is another

function placeMenu({ target: menu, newState }) {
  if (newState !== "open") return;
  const { bottom, right } = menu.previousSibling.getBoundingClientRect();
  menu.style.top = `${bottom + scrollY}px`;
  menu.style.setProperty("--right", `${right}px`);
}

const showMenu = ({ target: menu, newState }) => newState === "open" && menu.scrollIntoView({ block: "nearest" });
const hideMenu = ({ currentTarget: menu }) => menu.hidePopover();

export function moreMenu(label, ...items) {
  const id = label.replaceAll(" ", "-");
  return h("span", { class: "more" }, button("⋯", { "aria-label": label, popovertarget: id }),
    h("div", { popover: "", class: "menu", id, role: "group", "aria-label": label, onclick: hideMenu, onbeforetoggle: placeMenu, ontoggle: showMenu }, items));
}
