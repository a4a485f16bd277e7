// A chart with its title, unit, explanation, description, its data as a table, and as PNG and CSV.

import { h } from "./dom.js";
import { help, helpText } from "./help.js";
import { csv, fileName, saveText } from "./save.js";
import { state } from "./state.js";
import { table } from "./table.js";
import "./plot.js";

const opened = new Set(); // charts whose data are shown as a table

// chart({id, title, unit, help, helpText, describe, traces, layout, columns, rows, height, onPoint, note})
//   traces, layout: plotly's, or functions that give them (colours change with the theme).
//   columns: [{title, unit, value(row), cell(row)}] and rows: the same data, for the table and the file.
//   describe: one sentence for who does not see it; what the newest or largest value is.
export function chart({
  id,
  title,
  unit,
  help: key,
  helpText: text,
  describe,
  traces,
  layout,
  columns,
  rows,
  height = 260,
  onPoint,
  note,
  empty,
}) {
  const open = opened.has(id);
  const name = `${state.ctx?.run ?? "runs"}-${id}`;
  const none = rows.length === 0;
  const area = none
    ? h("p", { class: "empty plot" }, empty ?? "nothing to draw yet")
    : h("plot-area", {
        key: `plot-${id}`,
        role: "img",
        "aria-label": `${title}. ${describe ?? ""}`,
        style: { height: `${height}px` },
        spec: { id, traces: () => guarded(call(traces)), layout: () => call(layout ?? {}), onPoint },
      });
  return h(
    "figure",
    { class: "chart", key: `chart-${id}`, id: `chart-${id}` },
    h(
      "figcaption",
      {},
      h(
        "span",
        { class: "title" },
        title,
        unit ? h("span", { class: "unit" }, unit) : null,
        key ? help(key) : text ? helpText(text, title) : null,
      ),
      none
        ? null
        : h(
            "span",
            { class: "buttons" },
            h(
              "button",
              {
                type: "button",
                class: "small",
                "aria-expanded": String(open),
                "aria-label": `Data of “${title}” as a table`,
                onclick: () => {
                  open ? opened.delete(id) : opened.add(id);
                  state.again();
                },
              },
              "table",
            ),
            h(
              "button",
              {
                type: "button",
                class: "small",
                "aria-label": `Save “${title}” as PNG`,
                onclick: (event) =>
                  event.currentTarget.closest("figure").querySelector("plot-area").png(fileName(name)),
              },
              "PNG",
            ),
            h(
              "button",
              {
                type: "button",
                class: "small",
                "aria-label": `Save “${title}” as CSV`,
                onclick: () =>
                  saveText(
                    `${name}.csv`,
                    csv(
                      columns,
                      rows.map((row) => columns.map((column) => column.value(row))),
                    ),
                  ),
              },
              "CSV",
            ),
          ),
    ),
    area,
    note ? h("p", { class: "quiet" }, note) : null,
    open && !none
      ? table({ id: `data-${id}`, caption: `${title}: the data`, columns, rows, save: false, limit: 500 })
      : null,
  );
}

function call(given) {
  return typeof given === "function" ? given() : given;
}

// plotly reads some markup in names and labels: what a trial wrote is to be shown as it is.
function guarded(traces) {
  const plain = (value) =>
    typeof value === "string"
      ? value.replaceAll("&", "&amp;").replaceAll("<", "&lt;")
      : Array.isArray(value)
        ? value.map(plain)
        : value;
  return traces.map((trace) => {
    const made = { ...trace };
    for (const name of ["name", "text", "x", "y", "labels"])
      if (made[name] !== undefined) made[name] = plain(made[name]);
    return made;
  });
}

export { barChart, lineChart } from "./curves.js";
