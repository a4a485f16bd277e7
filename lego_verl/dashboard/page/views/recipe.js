// Recipe: what ran, in which versions, and how that differs from the defaults or from another run.

import { empty, h, note, sectionOf } from "../core/dom.js";
import { choice, filters, search, toggle } from "../core/filters.js";
import { whole } from "../core/format.js";
import { later } from "../core/later.js";
import { state } from "../core/state.js";
import { table } from "../core/table.js";
import { addStyle } from "./style.js";

addStyle("page/views/recipe.css");

export default {
  title: "Recipe",
  defaults: { to: "", q: "", own: "" },
  load: ({ api }) => api.run("recipe"),
  render(data, ctx) {
    const { q, to } = ctx.params;
    const others = state.runs.map((run) => run.name).filter((name) => name !== ctx.run);
    const keys = Object.entries(data.recipe).map(([name, value]) => ({ name, value, text: shown(value) }));
    const found = keys.filter((row) => matches(q, row));
    return [
      h("h1", {}, "Recipe"),
      filters(search({ param: "q", label: "Key or value", placeholder: "rollout.n" }), choice({ param: "to", label: "Differences to", options: [["", "the defaults"], ...others.map((name) => [name, name])] }), toggle({ param: "own", label: "also names and folders" })),
      sectionOf({ title: to ? `Differences to ${to}` : "Differences to the default recipe", id: "differences" }, later(ctx, `differences ${to}`, () => ctx.api.run("recipe/differences", { to }), (told) => differences(told, ctx))),
      sectionOf({ title: q ? `${whole(found.length)} of ${whole(keys.length)} keys` : `All ${whole(keys.length)} keys`, id: "keys" },
        found.length ? (q ? flat(found) : tree(keys)) : empty(`No key or value holds “${q}”.`, "Search for a part of a key, such as rollout.n or learning.")),
      sectionOf({ title: "Versions", id: "versions" }, pairs("versions", Object.entries(data.versions).map(([name, value]) => ({ name, value: shown(value) })), "No versions.json: it is written when training begins.")),
      sectionOf({ title: "Digests", id: "digests" }, h("p", { class: "quiet" }, "What the newest trials say that they were made with. A runtime is a harness and all that it needs, by content."), table({
        id: "digests", caption: "Digests", hideCaption: true, rows: data.digests, key: (row) => row.what + row.value, save: "recipe-digests",
        columns: [{ title: "of", value: (row) => row.what, head: true }, { title: "digest", value: (row) => row.value, cell: (row) => h("code", {}, row.value) }, { title: "trials", value: (row) => row.trials, cell: (row) => whole(row.trials), helpText: "Of the newest 2000." }],
      })),
    ];
  },
};

export function shown(value) {
  return value === null || value === undefined ? "null" : typeof value === "string" ? value : JSON.stringify(value);
}

function matches(q, row) {
  const wanted = q.toLowerCase().split(/\s+/).filter(Boolean);
  const all = `${row.name} ${row.text}`.toLowerCase();
  return wanted.every((each) => all.includes(each));
}

function flat(rows) {
  return pairs("keys", rows.map(({ name, text }) => ({ name, value: text })), "");
}

function pairs(id, rows, none) {
  return table({ id, caption: id, hideCaption: true, rows, key: (row) => row.name, empty: none, save: `recipe-${id}`, columns: [{ title: "key", value: (row) => row.name, head: true, cell: (row) => h("span", { class: "name" }, row.name) }, { title: "value", value: (row) => row.value, cell: (row) => h("code", {}, row.value), align: "left" }] });
}

// By the parts of the keys, folded below the first.
function tree(rows) {
  const root = new Map();
  for (const row of rows) {
    const parts = row.name.split(".");
    let at = root;
    for (const part of parts.slice(0, -1)) {
      if (!(at.get(part) instanceof Map)) at.set(part, new Map());
      at = at.get(part);
    }
    if (!(at.get(parts.at(-1)) instanceof Map)) at.set(parts.at(-1), row);
  }
  return h("div", { class: "recipe-tree", key: "tree" }, branch(root, 0));
}

function branch(map, depth) {
  const leaves = [...map].filter(([, value]) => !(value instanceof Map));
  const branches = [...map].filter(([, value]) => value instanceof Map);
  branches.sort(([a], [b]) => (b === "lego") - (a === "lego") || a.localeCompare(b));
  return [
    leaves.length ? h("dl", { class: "leaf", key: "leaves" }, leaves.map(([name, row]) => [h("dt", { key: `k${name}` }, name), h("dd", { key: `v${name}` }, h("code", {}, row.text))])) : null,
    branches.map(([name, inner]) => h("details", { key: name, open: depth === 0 && name === "lego" }, h("summary", {}, h("strong", {}, name), h("span", { class: "quiet" }, ` ${whole(count(inner))}`)), h("div", { class: "inner" }, branch(inner, depth + 1)))),
  ];
}

function count(map) {
  return [...map.values()].reduce((sum, each) => sum + (each instanceof Map ? count(each) : 1), 0);
}

export function differences({ differences: rows, to }, ctx, other = to) {
  const own = ctx.params.own === "1";
  const all = rows.map(([name, ours, theirs, every]) => ({ name, ours: shown(ours), theirs: shown(theirs), every }));
  const counted = all.filter((row) => own || !row.every);
  const hidden = all.length - counted.length;
  return [
    counted.length ? null : note("good", `No difference${hidden ? " but names and folders" : ""}.`),
    counted.length ? table({
      id: "differences", caption: "Keys that differ", hideCaption: true, rows: counted, key: (row) => row.name, save: "recipe-differences",
      columns: [{ title: "key", value: (row) => row.name, head: true, cell: (row) => h("span", { class: "name" }, row.name) }, { title: ctx.run, value: (row) => row.ours, cell: (row) => h("code", {}, row.ours), align: "left" }, { title: other || "default", value: (row) => row.theirs, cell: (row) => h("code", {}, row.theirs), align: "left" }],
    }) : null,
    hidden ? h("p", { class: "quiet" }, `${whole(hidden)} keys that hold the run's name or a path in its folder are left out.`) : null,
    other ? null : h("p", { class: "quiet" }, "The defaults are those of the installed version; a null stands also for a key that one side does not have."),
  ];
}
