// Makes what is on the page like what a view rendered, by changing only what differs: focus, scroll, selections, open
// details and charts stay where they are.

import { adoptHandlers } from "./dom.js";

// Give a parent these children. What stays is not moved, since a moved element loses focus and scroll: what is not wanted
// any more goes first.
export function patch(parent, wanted) {
  const nodes = [wanted]
    .flat(Infinity)
    .filter((node) => node !== null && node !== undefined && node !== false)
    .map((node) => (node instanceof Node ? node : document.createTextNode(String(node))));
  const names = new Set(nodes.filter((node) => node.key !== undefined).map(name));
  const keyed = new Map();
  for (const old of [...parent.childNodes]) {
    if (old.key === undefined) continue;
    if (names.has(name(old))) keyed.set(name(old), old);
    else old.remove();
  }
  let place = parent.firstChild;
  nodes.forEach((made, i) => {
    const old = made.key === undefined ? unnamed(place, made, nodes, i) : (keyed.get(name(made)) ?? null);
    if (!old) {
      parent.insertBefore(made, place);
      return;
    }
    keyed.delete(name(made));
    while (place && place !== old && place.key === undefined) place = removed(place);
    if (old === place) place = place.nextSibling;
    else parent.insertBefore(old, place);
    adopt(old, made);
  });
  while (place) place = removed(place);
}

// The next element without a key of the same kind, unless one before it is wanted later.
function unnamed(place, made, nodes, i) {
  let old = place;
  while (old && old.key === undefined && sort(old) !== sort(made)) {
    const passed = sort(old);
    if (nodes.slice(i + 1).some((node) => node.key === undefined && sort(node) === passed)) return null;
    old = old.nextSibling;
  }
  return old && old.key === undefined ? old : null;
}

function removed(node) {
  const next = node.nextSibling;
  node.remove();
  return next;
}

function name(node) {
  return sort(node) + node.key;
}

function sort(node) {
  return node.nodeType === 1 ? `${node.nodeName}:` : `#${node.nodeType}:`;
}

function adopt(old, made) {
  if (old.nodeType !== 1) {
    if (old.data !== made.data) old.data = made.data;
    return;
  }
  for (const { name, value } of made.attributes)
    if (old.getAttribute(name) !== value && name !== "style") old.setAttribute(name, value);
  for (const { name } of [...old.attributes]) {
    if (!made.hasAttribute(name) && name !== "style" && !kept(old, name)) old.removeAttribute(name);
  }
  if (old.style.cssText !== made.style.cssText && made.spec === undefined) old.style.cssText = made.style.cssText;
  adoptHandlers(old, made);
  if (made.spec !== undefined) {
    old.spec = made.spec; // an element that draws itself: its children are its own
    return;
  }
  patch(old, [...made.childNodes]);
  if (made.wanted !== undefined) {
    // What a person is typing is not taken away.
    if (old.wanted !== made.wanted && document.activeElement !== old) old.value = made.wanted;
    if (old.nodeName === "SELECT") old.value = made.wanted;
    old.wanted = made.wanted;
  }
  if (old.type === "checkbox") old.checked = made.checked;
}

// What an element says of itself, or a person did to it.
function kept(node, name) {
  if (name === "data-drawn") return true;
  return name === "open" && (node.nodeName === "DETAILS" || node.nodeName === "DIALOG");
}
