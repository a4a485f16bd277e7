// Tasks: each task's solve rate over time in one row, and how it went.

import { barChart } from "../core/chart.js";
import { isDark, shareColour } from "../core/colours.js";
import { empty, h, sectionOf, stat, stats, svg, tag } from "../core/dom.js";
import { choice, filters, harnessChoice, search, splitChoice } from "../core/filters.js";
import { share, whole, words } from "../core/format.js";
import { help } from "../core/help.js";
import { pages, table } from "../core/table.js";

const WENT = ["improved", "regressed", "always", "never", "mixed", "ungraded"];
const TONE = { improved: "good", regressed: "bad", always: "good", never: "warn" };
const LIMIT = 60;

export default {
  title: "Tasks",
  defaults: { split: "train", harness: "", task: "", went: "", q: "", by: "visit", offset: "" },
  load: ({ params, api }) => api.run("tasks", { split: params.split, harness: params.harness }),
  render({ tasks, steps }, ctx) {
    const { params } = ctx;
    const head = [
      h("h1", {}, "Tasks"),
      filters(
        splitChoice(),
        harnessChoice(),
        choice({ param: "went", label: "How it went", options: [["", "all"], ...WENT], also: { offset: "" } }),
        choice({
          param: "by",
          label: "A column for",
          options: [
            ["visit", "each time it came"],
            ["step", "each step"],
          ],
        }),
        search({ param: "q", label: "Name holds", also: { offset: "" } }),
      ),
    ];
    if (!tasks.length) return [...head, empty("No task has been worked on.", "Tasks appear with their first trial.")];
    const one = params.task ? tasks.find((each) => each.task === params.task) : null;
    const fit = tasks.filter(
      (each) =>
        (!params.went || each.went === params.went) &&
        (!params.q || each.task.toLowerCase().includes(params.q.toLowerCase())),
    );
    const offset = Number(params.offset) || 0;
    const shown = fit.slice(offset, offset + LIMIT);
    const zero = steps.filter((row) => row.groups);
    return [
      ...head,
      params.task ? detail(one, ctx) : null,
      h("div", { key: "sums" }, stats(...WENT.map((went) => count(went, tasks, ctx)).filter(Boolean))),
      barChart({
        id: "zero-variance",
        title: "Groups without variance",
        unit: "% of groups",
        help: "zero_variance",
        height: 150,
        series: [
          {
            name: "without variance",
            x: zero.map((row) => row.step),
            y: zero.map((row) => (100 * (row.zero_variance ?? 0)) / row.groups),
          },
        ],
        href: (x) => ctx.link("trials", { step: x, split: params.split }),
        layout: { yaxis: { range: [0, 100] } },
        empty: "no group yet",
      }),
      sectionOf(
        { title: "Grid", help: "grid", id: "grid", aside: legend() },
        fit.length ? grid(shown, fit, ctx) : empty("No task fits.", "Change or clear a filter."),
        pages({ offset, limit: LIMIT, more: offset + LIMIT < fit.length, shown: shown.length }),
      ),
    ];
  },
};

function count(went, tasks, ctx) {
  const number = tasks.filter((each) => each.went === went).length;
  if (!number && (went === "mixed" || went === "ungraded")) return null;
  return stat({
    label: went,
    value: whole(number),
    help: "went",
    note: share(number / tasks.length, 0),
    tone: number ? TONE[went] : null,
    href: ctx.link("tasks", { ...kept(ctx), went: ctx.params.went === went ? "" : went }),
  });
}

function kept({ params, defaults }) {
  return Object.fromEntries(
    Object.entries(params).filter(([name, value]) => value !== defaults[name] && name !== "offset"),
  );
}

function grid(shown, fit, ctx) {
  const { params } = ctx;
  const byStep = params.by === "step";
  const all = [...new Set(fit.flatMap((task) => task.cells.map(([step]) => step)))].sort((a, b) => a - b);
  const place = new Map(all.map((step, i) => [step, i]));
  const width = byStep ? all.length : Math.max(...fit.map((task) => task.cells.length));
  return table({
    id: "tasks",
    caption: `${fit.length} tasks; ${byStep ? "a column a step" : "a column each time it came"}`,
    rows: shown,
    key: (row) => row.task,
    save: "tasks",
    columns: [
      {
        title: "task",
        head: true,
        value: (row) => row.task,
        cell: (row) => h("a", { class: "name", href: ctx.link("tasks", { ...kept(ctx), task: row.task }) }, row.task),
        help: "task",
      },
      { title: "went", value: (row) => row.went, cell: (row) => tag(row.went, TONE[row.went]), help: "went" },
      {
        title: "solved",
        unit: "%",
        value: (row) => (row.graded ? (100 * row.solved) / row.graded : null),
        cell: (row) => share(row.graded ? row.solved / row.graded : null, 0),
        align: "right",
        help: "solve_rate",
      },
      { title: "graded", value: (row) => row.graded, cell: (row) => whole(row.graded), align: "right", help: "graded" },
      {
        title: byStep ? `steps ${all[0]} to ${all.at(-1)}` : "the first time it came, and on",
        cell: (row) => strip(row, width, (cell, i) => (byStep ? place.get(cell[0]) : i)),
      },
    ],
  });
}

// One row of the grid: cells of one colour are one path, so that a page of them stays light.
function strip(task, width, placed) {
  const paths = new Map();
  let dots = "";
  task.cells.forEach((cell, i) => {
    const [, solved, graded, flat] = cell;
    const x = placed(cell, i);
    const colour = graded ? shareColour(Math.round((8 * solved) / graded) / 8) : "none";
    paths.set(colour, `${paths.get(colour) ?? ""}M${x} 0h.92v10h-.92z`);
    if (flat && graded > 1) dots += `M${x + 0.46} 5h.001`;
  });
  return svg(
    "svg",
    {
      class: "strip",
      viewBox: `0 0 ${width} 10`,
      preserveAspectRatio: "none",
      role: "img",
      "aria-label": `${task.task}: ${told(task)}`,
      style: { width: `${Math.min(width * 24, 600)}px` },
    },
    [...paths].map(([colour, d]) => svg("path", { d, fill: colour, class: colour === "none" ? "ungraded" : null })),
    dots ? svg("path", { d: dots, class: "flat", "vector-effect": "non-scaling-stroke" }) : null,
  );
}

function told({ cells }) {
  const rate = ([, solved, graded]) => (graded ? `${solved} of ${graded}` : "none graded");
  return cells.length > 1
    ? `first ${rate(cells[0])}, last ${rate(cells.at(-1))}, came ${cells.length} times`
    : rate(cells[0]);
}

function legend() {
  const steps = Array.from({ length: 9 }, (_, i) =>
    svg("rect", { x: i * 10, y: 0, width: 10, height: 10, fill: shareColour(i / 8) }),
  );
  return h(
    "span",
    { class: "legend" },
    "never ",
    svg(
      "svg",
      {
        viewBox: "0 0 90 10",
        class: "ramp",
        role: "img",
        "aria-label": "from orange to blue",
        "data-dark": isDark() ? "" : null,
      },
      steps,
    ),
    " always; ",
    h("span", { "aria-hidden": "true" }, "•"),
    " no variance",
    help("zero_variance"),
  );
}

function detail(task, ctx) {
  const { params } = ctx;
  const close = h("a", { href: ctx.link("tasks", { ...kept(ctx), task: "" }) }, "close");
  if (!task)
    return sectionOf(
      { title: params.task, id: "task", aside: close },
      empty("This run has no such task in this split.", "Choose another split, or a task of the grid."),
    );
  const to = (more) => ctx.link("trials", { task: task.task, split: params.split, harness: params.harness, ...more });
  return sectionOf(
    { title: task.task, id: "task", aside: close },
    h(
      "p",
      {},
      tag(task.went, TONE[task.went]),
      ` ${task.solved} of ${task.graded} graded trials solved it. `,
      h("a", { href: to({}) }, "All its trials"),
      " · ",
      h("a", { href: ctx.link("compare", { task: task.task }) }, "side by side"),
    ),
    table({
      id: "task-steps",
      caption: `${words("steps")} of ${task.task}`,
      hideCaption: true,
      rows: [...task.cells].reverse(),
      key: ([step]) => step,
      limit: 40,
      columns: [
        {
          title: "step",
          head: true,
          value: ([step]) => step,
          cell: ([step]) => h("a", { href: to({ step }) }, step),
          align: "right",
        },
        { title: "solved", value: ([, solved]) => solved, align: "right" },
        { title: "graded", value: ([, , graded]) => graded, align: "right", help: "graded" },
        {
          title: "solve rate",
          unit: "%",
          value: ([, solved, graded]) => (graded ? (100 * solved) / graded : null),
          cell: ([, solved, graded]) => share(graded ? solved / graded : null, 0),
          align: "right",
          help: "solve_rate",
        },
        {
          title: "variance",
          value: ([, , graded, flat]) =>
            flat && graded > 1 ? "none: taught nothing" : graded > 1 ? "some" : "too few trials",
          help: "zero_variance",
        },
      ],
    }),
  );
}
