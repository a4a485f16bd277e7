// DOM made from data. Texts become text nodes, always: nothing that a trial wrote is ever parsed as HTML.

import { help, helpText } from "./help.js";

const SVG = "http://www.w3.org/2000/svg";

// h("a", {class: "x", href: "#/", key: "k", style: {width: "3px"}, onclick: (event) => …}, children…)
// Properties: `key` tells siblings apart when the page is patched; `on…` are handlers; `style` is an object.
// Children: nodes, texts, numbers, arrays of these; null, undefined and false are left out.
export function h(tag, properties, ...children) {
  return build(document.createElement(tag), properties, children);
}

// The same for an SVG element.
export function svg(tag, properties, ...children) {
  return build(document.createElementNS(SVG, tag), properties, children);
}

function build(node, properties, children) {
  for (const [name, value] of Object.entries(properties ?? {})) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "key") node.key = value;
    else if (name === "style") for (const [each, set] of Object.entries(value)) style(node, each, set);
    else if (name.startsWith("on")) handle(node, name.slice(2), value);
    else if (name === "spec") node.spec = value;
    else if (name === "value" && "value" in node && node.nodeName !== "PROGRESS" && node.nodeName !== "OPTION") {
      node.wanted = value;
      node.value = value;
    } else if (name === "checked") node.checked = node.wantedCheck = true;
    else node.setAttribute(name, value === true ? "" : String(value));
  }
  append(node, children);
  if (node.nodeName === "SELECT" && node.wanted !== undefined) node.value = node.wanted;
  return node;
}

function style(node, name, value) {
  node.style.setProperty(
    name.replace(/[A-Z]/g, (letter) => "-" + letter.toLowerCase()),
    String(value),
  );
}

function append(node, children) {
  for (const child of children) {
    if (child === null || child === undefined || child === false) continue;
    if (Array.isArray(child)) append(node, child);
    else node.append(child instanceof Node ? child : document.createTextNode(String(child)));
  }
}

// Handlers live in a property, so that a patch can replace them: an element listens once, whatever it is to do.
function handle(node, type, handler) {
  node.handlers ??= {};
  if (!(type in node.handlers)) node.addEventListener(type, dispatch);
  node.handlers[type] = handler;
}

export function adoptHandlers(old, made) {
  for (const [type, handler] of Object.entries(made.handlers ?? {})) handle(old, type, handler);
  for (const type of Object.keys(old.handlers ?? {})) if (!made.handlers?.[type]) old.handlers[type] = null;
}

function dispatch(event) {
  event.currentTarget.handlers[event.type]?.(event);
}

// A part of a view with a heading of its own.
export function section(title, ...children) {
  return sectionOf({ title }, ...children);
}

// The same with {title, help, id, aside}: `aside` stands beside the heading.
export function sectionOf({ title, help: key, id, aside }, ...children) {
  const heading = h("h2", {}, title, key ? help(key) : null);
  return h(
    "section",
    { key: id ?? title, class: "part" },
    aside ? h("div", { class: "heading" }, heading, aside) : heading,
    ...children,
  );
}

// One number: {label, value, note, help, helpText, tone: "good" | "warn" | "bad"}.
export function stat({ label, value, note, help: key, helpText: text, tone, href }) {
  const shown = href ? h("a", { href }, value) : value;
  return h(
    "div",
    { class: "stat", key: label, "data-tone": tone },
    h("dt", {}, label, key ? help(key) : text ? helpText(text, label) : null),
    h("dd", {}, h("span", { class: "value" }, shown), note ? h("span", { class: "note" }, note) : null),
  );
}

export function stats(...items) {
  return h("dl", { class: "stats" }, ...items);
}

// A line that is to be seen: tone "info" | "good" | "warn" | "bad".
export function note(tone, ...children) {
  const mark = { info: "i", good: "✓", warn: "!", bad: "!" }[tone] ?? "i";
  return h(
    "p",
    { class: "notice", "data-tone": tone },
    h("span", { class: "mark", "aria-hidden": "true" }, mark),
    h("span", {}, ...children),
  );
}

// Nothing to show: what there is none of, and what to do.
export function empty(what, todo) {
  return h("div", { class: "empty" }, h("p", {}, what), todo ? h("p", { class: "quiet" }, todo) : null);
}

export function tag(text, tone) {
  return h("span", { class: "tag", "data-tone": tone }, text);
}
