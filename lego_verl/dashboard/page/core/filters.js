// Controls that change the address.

import { h } from "./dom.js";
import { set, state } from "./state.js";
import { words } from "./format.js";

let typing = null;

export function filters(...controls) {
  return h(
    "form",
    { class: "filters", role: "search", "aria-label": "Filters", onsubmit: (event) => event.preventDefault() },
    ...controls,
  );
}

// {param, label, options: [[value, text]] or [value]}: one of several.
export function choice({ param, label, options, also = {} }) {
  const value = String(state.ctx.params[param] ?? "");
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, words(option)]));
  if (!pairs.some(([each]) => String(each) === value)) pairs.push([value, value]);
  return h(
    "label",
    { class: "control", key: param },
    h("span", {}, label),
    h(
      "select",
      { name: param, value, onchange: (event) => set({ [param]: event.currentTarget.value, ...also }) },
      pairs.map(([each, text]) => h("option", { value: each, selected: String(each) === value }, text)),
    ),
  );
}

export function toggle({ param, label }) {
  const on = ["1", "true"].includes(String(state.ctx.params[param] ?? ""));
  return h(
    "label",
    { class: "control check", key: param },
    h("input", {
      type: "checkbox",
      name: param,
      checked: on,
      onchange: (event) => set({ [param]: event.currentTarget.checked ? "1" : "" }),
    }),
    h("span", {}, label),
  );
}

// Free text; `list`: texts to choose from.
export function search({ param, label, placeholder, list, also = {} }) {
  const id = `list-${param}`;
  return h(
    "label",
    { class: "control", key: param },
    h("span", {}, label),
    h("input", {
      type: "search",
      name: param,
      value: state.ctx.params[param] ?? "",
      placeholder,
      list: list ? id : null,
      autocomplete: "off",
      spellcheck: "false",
      oninput: (event) => {
        const { value } = event.currentTarget;
        clearTimeout(typing);
        typing = setTimeout(() => set({ [param]: value, ...also }, { replace: true }), 250);
      },
    }),
    list
      ? h(
          "datalist",
          { id },
          list.map((each) => h("option", { value: each })),
        )
      : null,
  );
}

// `both`: also without a choice.
export function splitChoice({ both = false, also } = {}) {
  const splits = state.ctx.info?.splits ?? [];
  return choice({
    param: "split",
    label: "Split",
    also,
    options: [
      ...(both ? [["", "both"]] : []),
      ["train", "training"],
      ...(splits.includes("heldout") || state.ctx.params.split === "heldout" ? [["heldout", "held-out"]] : []),
    ],
  });
}

export function harnessChoice() {
  return choice({
    param: "harness",
    label: "Harness",
    options: [["", "all"], ...(state.ctx.info?.harnesses ?? []).map((each) => [each, each])],
  });
}
