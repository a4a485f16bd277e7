// A table that can be sorted, saved as CSV, and read by a screen reader.

import { h } from "./dom.js";
import { help, helpText } from "./help.js";
import { csv, saveText } from "./save.js";
import { set, state } from "./state.js";

// table({id, caption, columns, rows, key, sort, empty, save, note})
//   columns: [{title, value(row), cell(row) -> node or text, unit, help, helpText, align: "left" | "right", head: true}]
//     `value` is what is sorted and saved (number or text); `cell` what is shown (default: the value). A column without
//     `value` cannot be sorted. Numbers stand on the right. `head` marks the column that names its row.
//   sort: the column that is sorted by until somebody chooses: its title, "-title" for downwards; none: as the rows are.
//   key(row): what tells a row from others when the page is patched. tone(row): "good" | "warn" | "bad".
//   save: the CSV file's name; false: none. limit: rows at most (a sum of what is left out is said).
export function table({ id, caption, columns, rows, key, sort = "", empty, save, tone, limit, hideCaption }) {
  const chosen = state.ctx?.params[`_sort.${id}`] ?? sort;
  const down = chosen.startsWith("-");
  const by = columns.find((column) => column.title === chosen.replace(/^-/, "") && column.value);
  const sorted = by ? [...rows].sort((a, b) => (down ? -1 : 1) * compare(by.value(a), by.value(b), down)) : rows;
  const shown = limit ? sorted.slice(0, limit) : sorted;
  const right = columns.map(
    (column) =>
      column.align === "right" || (!column.align && rows.some((row) => typeof column.value?.(row) === "number")),
  );
  const heads = columns.map((column, i) =>
    head(id, column, right[i], by === column ? (down ? "descending" : "ascending") : null),
  );
  const body = shown.map((row, number) =>
    h(
      "tr",
      { key: key ? key(row) : number, "data-tone": tone?.(row) },
      columns.map((column, i) =>
        h(
          column.head ? "th" : "td",
          { scope: column.head ? "row" : null, class: right[i] ? "right" : null },
          column.cell ? column.cell(row) : text(column.value(row)),
        ),
      ),
    ),
  );
  const button =
    save === false || rows.length === 0
      ? null
      : h(
          "button",
          {
            type: "button",
            class: "small",
            "aria-label": `Save “${caption}” as CSV`,
            onclick: () => saveTable(save ?? id, columns, sorted),
          },
          "CSV",
        );
  return h(
    "div",
    { class: "table", key: `table-${id}` },
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
      h(
        "table",
        { id },
        h("caption", { class: hideCaption ? "unseen" : null }, h("span", {}, caption), button),
        h("thead", {}, h("tr", {}, heads)),
        h(
          "tbody",
          {},
          body.length
            ? body
            : h("tr", {}, h("td", { colspan: columns.length, class: "quiet" }, empty ?? "nothing yet")),
        ),
      ),
    ),
    hideCaption ? button : null,
    shown.length < sorted.length
      ? h("p", { class: "quiet" }, `${shown.length} of ${sorted.length} are shown; the CSV has all.`)
      : null,
  );
}

function head(id, column, right, order) {
  const about = column.help ? help(column.help) : column.helpText ? helpText(column.helpText, column.title) : null;
  const name = [column.title, column.unit ? h("span", { class: "unit" }, column.unit) : null];
  if (!column.value) return h("th", { scope: "col", class: right ? "right" : null }, name, about);
  const next =
    order === "descending"
      ? column.title
      : order === "ascending"
        ? `-${column.title}`
        : right
          ? `-${column.title}`
          : column.title;
  return h(
    "th",
    { scope: "col", class: right ? "right" : null, "aria-sort": order },
    h(
      "button",
      { type: "button", class: "sort", title: "sort", onclick: () => set({ [`_sort.${id}`]: next }) },
      name,
      h(
        "span",
        { class: "arrow", "aria-hidden": "true" },
        order === "descending" ? "▾" : order === "ascending" ? "▴" : "",
      ),
    ),
    about,
  );
}

function text(value) {
  return value === null || value === undefined ? "–" : value;
}

// What is not known comes last, whichever way.
function compare(a, b, down) {
  const none = (value) => value === null || value === undefined || Number.isNaN(value);
  if (none(a) || none(b)) return (none(a) - none(b)) * (down ? -1 : 1);
  if (typeof a === "number" && typeof b === "number") return a - b;
  return String(a).localeCompare(String(b), "en", { numeric: true });
}

function saveTable(name, columns, rows) {
  const saved = columns.filter((column) => column.value);
  saveText(
    `${state.ctx?.run ?? "runs"}-${name}.csv`,
    csv(
      saved,
      rows.map((row) => saved.map((column) => column.value(row))),
    ),
  );
}

// Links to the pages of a long list: {offset, limit, more, param: "page"}; `shown` rows are on this one.
export function pages({ offset, limit, more, shown, param = "offset" }) {
  if (!offset && !more) return null;
  const { run, view, path, params } = state.ctx;
  const to = (place) => state.ctx.link([view, ...path], { ...params, [param]: place || "" }, run);
  return h(
    "nav",
    { class: "pages", "aria-label": "Pages of the list", key: "pages" },
    offset > 0
      ? h("a", { href: to(Math.max(offset - limit, 0)), rel: "prev" }, "‹ newer")
      : h("span", { class: "quiet" }, "‹ newer"),
    h("span", {}, `${offset + 1}–${offset + shown}`),
    more ? h("a", { href: to(offset + limit), rel: "next" }, "older ›") : h("span", { class: "quiet" }, "older ›"),
  );
}
