// What a number is: a "?" beside it, whose text shows on hover, on focus and on click, and is read to who cannot see it.

import { h } from "./dom.js";

let glossary = {};
let shown = null;

export async function loadGlossary() {
  glossary = await (await fetch("page/glossary.json")).json();
}

export function said(key) {
  return glossary[key] ?? null;
}

// By a key of page/glossary.json.
export function help(key) {
  return helpText(glossary[key] ?? `(page/glossary.json has no “${key}”)`, key.replaceAll("_", " "));
}

export function helpText(text, label) {
  return h(
    "button",
    {
      type: "button",
      class: "help",
      "aria-label": `What is ${label}? ${text}`,
      "data-help": text,
      onmouseenter: show,
      onfocus: show,
      onmouseleave: hide,
      onblur: hide,
      onclick: show,
      onkeydown: (event) => {
        if (event.key === "Escape") hide(event);
      },
    },
    "?",
  );
}

function show(event) {
  const button = event.currentTarget;
  const tip = document.getElementById("help");
  tip.textContent = button.dataset.help;
  tip.hidden = false;
  shown = button;
  const at = button.getBoundingClientRect();
  const size = tip.getBoundingClientRect();
  const left = Math.min(
    Math.max(8, at.left + at.width / 2 - size.width / 2),
    document.documentElement.clientWidth - size.width - 8,
  );
  const above = at.top - size.height - 8;
  tip.style.setProperty("left", `${left}px`);
  tip.style.setProperty("top", `${above > 8 ? above : at.bottom + 8}px`);
}

function hide(event) {
  if (shown && event.currentTarget !== shown && event.type !== "scroll") return;
  document.getElementById("help").hidden = true;
  shown = null;
}

window.addEventListener(
  "scroll",
  () => {
    if (shown) {
      document.getElementById("help").hidden = true;
      shown = null;
    }
  },
  { passive: true, capture: true },
);
