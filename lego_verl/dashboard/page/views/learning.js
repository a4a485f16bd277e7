// Learning: solve rates and any metric by step; several runs one over another.

import { lineChart } from "../core/chart.js";
import { palette } from "../core/colours.js";
import { empty, h, note, sectionOf } from "../core/dom.js";
import { choice, filters, splitChoice, toggle } from "../core/filters.js";
import { number } from "../core/format.js";
import { solveRateSeries } from "../core/series.js";
import { set, state } from "../core/state.js";
import { table } from "../core/table.js";

const USUAL = "reward,entropy,pearson";

export default {
  title: "Learning",
  defaults: { split: "", window: "5", harnesses: "", with: "", metrics: USUAL },
  async load({ run, params, api }) {
    const others = listed(params.with).filter((name) => name !== run);
    const asked = { window: Number(params.window) || 1, by_harness: params.harnesses === "1" };
    const wanted = listed(params.metrics);
    const of = async (name) => {
      const [learning, metrics] = await Promise.all([
        api.of(name, "learning", asked),
        wanted.length ? api.of(name, "metrics", { name: wanted }) : { curves: {} },
      ]);
      return { name, learning, curves: metrics.curves };
    };
    const parts = await Promise.allSettled([run, ...others].map(of));
    if (parts[0].status === "rejected") throw parts[0].reason;
    const { names } = await api.run("metrics/names");
    return {
      names,
      parts: parts.filter((part) => part.status === "fulfilled").map((part) => part.value),
      failed: parts.filter((part) => part.status === "rejected").map((part) => part.reason.message),
    };
  },
  render({ names, parts, failed }, ctx) {
    const { params } = ctx;
    const several = parts.length > 1;
    const splits = params.split ? [params.split] : ["train", "heldout"];
    const smooth = Number(params.window) > 1;
    const series = parts.flatMap(({ name, learning }, i) => {
      const made = solveRateSeries(learning, {
        smooth,
        raw: !several,
        byHarness: params.harnesses === "1",
        run: several ? name : "",
        splits,
        band: parts.length < 4,
      });
      return several
        ? made.map((each, j) => ({ ...each, colour: () => palette(params.harnesses === "1" ? i * 3 + j : i) }))
        : made;
    });
    return [
      h("h1", {}, "Learning"),
      filters(
        splitChoice({ both: true }),
        choice({
          param: "window",
          label: "Smoothed over",
          options: [
            ["1", "raw"],
            ["3", "3 steps"],
            ["5", "5 steps"],
            ["10", "10 steps"],
            ["25", "25 steps"],
          ],
        }),
        toggle({ param: "harnesses", label: "by harness" }),
        chooser(
          "with",
          "Overlay a run",
          state.runs.map((each) => each.name).filter((name) => name !== ctx.run),
          ctx,
        ),
        chooser("metrics", "Add a metric", names, ctx),
      ),
      failed.map((line) => note("warn", line)),
      lineChart({
        id: "solve-rate",
        title: "Solve rate",
        unit: "%",
        help: "solve_rate",
        height: 340,
        series,
        range: null,
        href: (x) => ctx.link("trials", { step: x }),
        empty: "no trial is graded yet",
        note: smooth
          ? `Lines pool the trials of ${params.window} steps, with their interval; each step by itself is thin behind. Held-out rates are never smoothed. Shaded: 95 %.`
          : "Each step by itself. Shaded: 95 %.",
      }),
      h(
        "div",
        { class: "grid", key: "metrics" },
        metricNames(parts).map((name) => metric(name, parts, several, ctx)),
      ),
      sectionOf({ title: "Steps", id: "steps" }, steps(parts[0].learning.train, ctx)),
    ];
  },
};

export function listed(text) {
  return [...new Set((text ?? "").split(",").filter(Boolean))];
}

// What is chosen, each with a way to take it away, and a field to add another.
function chooser(param, label, options, ctx) {
  const chosen = listed(ctx.params[param]);
  const left = options.filter((each) => !chosen.includes(each));
  return h(
    "div",
    { class: "control chosen", key: param },
    h(
      "label",
      {},
      h("span", {}, label),
      h(
        "select",
        {
          value: "",
          onchange: (event) => {
            const { value } = event.currentTarget;
            if (value) set({ [param]: [...chosen, value].join(",") });
          },
        },
        h("option", { value: "" }, left.length ? "choose…" : "no other"),
        left.map((each) => h("option", { value: each }, each)),
      ),
    ),
    chosen.map((each) =>
      h(
        "button",
        {
          type: "button",
          class: "chip",
          key: each,
          "aria-label": `Without ${each}`,
          onclick: () => set({ [param]: chosen.filter((other) => other !== each).join(",") }),
        },
        each,
        h("span", { "aria-hidden": "true" }, " ×"),
      ),
    ),
  );
}

function metricNames(parts) {
  return [...new Set(parts.flatMap((part) => Object.keys(part.curves)))];
}

function metric(name, parts, several, ctx) {
  const series = parts
    .filter((part) => part.curves[name])
    .map((part) => ({
      name: several ? part.name : name,
      x: part.curves[name].map(([step]) => step),
      y: part.curves[name].map(([, value]) => value),
      colour: () => palette(parts.indexOf(part)),
    }));
  return lineChart({
    id: `metric-${name}`,
    title: name,
    help: ["entropy", "pearson", "reward", "learning_rate"].includes(name) ? name : "metric",
    height: 200,
    series,
    href: several ? undefined : (x) => ctx.link("trials", { step: x }),
  });
}

function steps(rows, ctx) {
  if (!rows.length) return empty("No step has begun yet.");
  const byHarness = rows.some((row) => row.harness !== undefined);
  return table({
    id: "steps",
    caption: "Training steps",
    hideCaption: true,
    rows: [...rows].reverse(),
    key: (row) => `${row.step}/${row.harness ?? ""}`,
    limit: 200,
    columns: [
      {
        title: "step",
        head: true,
        value: (row) => row.step,
        cell: (row) =>
          h("a", { href: ctx.link("trials", { step: row.step, split: "train", harness: row.harness }) }, row.step),
        align: "right",
      },
      ...(byHarness ? [{ title: "harness", value: (row) => row.harness }] : []),
      {
        title: "solved",
        unit: "%",
        value: (row) => (row.solve_rate ? 100 * row.solve_rate.value : null),
        cell: (row) => (row.solve_rate ? (100 * row.solve_rate.value).toFixed(1) : "–"),
        align: "right",
        help: "solve_rate",
      },
      {
        title: "low",
        unit: "%",
        value: (row) => (row.solve_rate ? 100 * row.solve_rate.low : null),
        cell: (row) => (row.solve_rate ? (100 * row.solve_rate.low).toFixed(1) : "–"),
        align: "right",
        help: "interval",
      },
      {
        title: "high",
        unit: "%",
        value: (row) => (row.solve_rate ? 100 * row.solve_rate.high : null),
        cell: (row) => (row.solve_rate ? (100 * row.solve_rate.high).toFixed(1) : "–"),
        align: "right",
      },
      {
        title: "reward",
        value: (row) => row.reward,
        cell: (row) => number(row.reward),
        align: "right",
        help: "reward",
      },
      { title: "trials", value: (row) => row.trials, align: "right" },
      { title: "dropped", value: (row) => row.dropped ?? 0, align: "right", help: "dropped" },
      { title: "groups", value: (row) => row.groups, align: "right", help: "group" },
      { title: "no variance", value: (row) => row.zero_variance, align: "right", help: "zero_variance" },
      {
        title: "tokens",
        value: (row) => row.sampled_tokens,
        cell: (row) => number(row.sampled_tokens),
        align: "right",
        help: "sampled_tokens",
      },
    ],
  });
}
