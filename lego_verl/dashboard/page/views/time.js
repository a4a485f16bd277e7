// Time: where each step's time went, in trials and in the trainer; slots; what is waited for.

import { barChart, lineChart } from "../core/chart.js";
import { palette } from "../core/colours.js";
import { empty, h, sectionOf, stat, stats } from "../core/dom.js";
import { choice, filters, splitChoice } from "../core/filters.js";
import { ago, fixed, known, seconds, share } from "../core/format.js";
import { table } from "../core/table.js";
import { trialLink, trialsTable } from "../core/trials.js";

const PHASES = ["queued", "start", "harness", "generation", "patch", "grading"];
const PREFIX = "seconds_by_phase/step/";

export default {
  title: "Time",
  defaults: { split: "train", per: "trial" },
  load: ({ params, api }) => api.run("time", { split: params.split }),
  render({ trials, steps, running, slowest, slots }, ctx) {
    const { params } = ctx;
    const head = [
      h("h1", {}, "Time"),
      filters(
        splitChoice(),
        choice({
          param: "per",
          label: "Trial phases",
          options: [
            ["trial", "mean of a trial"],
            ["sum", "sum over trials"],
          ],
        }),
      ),
    ];
    if (!trials.length) return [...head, empty("No trial has begun.", "Times appear with the first trials.")];
    const whole = new Map(steps.seconds ?? []);
    const phases = Object.keys(steps).filter((name) => name.startsWith(PREFIX) && name !== `${PREFIX}step`);
    const generation = new Map(steps[`${PREFIX}gen`] ?? []);
    const href = (x) => ctx.link("trials", { step: x, split: params.split, slowest: 1 });
    return [
      ...head,
      h("div", { key: "numbers" }, numbers(trials, whole, phases, steps, generation, slots)),
      barChart({
        id: "trial-phases",
        title: params.per === "sum" ? "Trial phases, summed" : "Trial phases, mean of a trial",
        unit: "s",
        help: "phases",
        height: 280,
        href,
        series: PHASES.map((phase, i) => ({
          name: phase,
          x: trials.map((row) => row.step),
          y: trials.map((row) => (known(row[phase]) ? row[phase] / (params.per === "sum" ? 1 : row.trials) : null)),
          colour: () => (phase === "queued" ? "#9aa4b2" : palette(i - 1)),
        })),
        note: "Queued is waiting for a slot, and costs nothing but time. A bar leads to the step's slowest trials.",
      }),
      phases.length
        ? barChart({
            id: "step-phases",
            title: "The step, as verl counts it",
            unit: "s",
            help: "step_phases",
            height: 280,
            href,
            series: phases.map((name, i) => ({
              name: name.slice(PREFIX.length).replaceAll("_", " "),
              x: steps[name].map(([step]) => step),
              y: steps[name].map(([, value]) => value),
              colour: () => palette(i),
            })),
          })
        : sectionOf(
            { title: "The step, as verl counts it", help: "step_phases", id: "step-phases" },
            empty("The run has not closed a step yet."),
          ),
      h(
        "div",
        { class: "columns", key: "columns" },
        lineChart({
          id: "slots",
          title: "Trials in a sandbox at once",
          unit: `of ${slots ?? "?"} slots`,
          help: "slots",
          height: 210,
          series: [{ name: "busy slots", ...busy(trials, generation, whole, slots) }],
          range: slots ? [0, slots * 1.05] : undefined,
          href,
          empty: "no step is closed yet",
        }),
        lineChart({
          id: "slowest-of-step",
          title: "Slowest and mean trial",
          unit: "s",
          help: "slowest",
          height: 210,
          href,
          series: [
            { name: "slowest", x: trials.map((row) => row.step), y: trials.map((row) => row.slowest) },
            {
              name: "mean",
              x: trials.map((row) => row.step),
              y: trials.map((row) => (known(row.total) ? row.total / row.trials : null)),
            },
          ],
        }),
      ),
      running.length ? sectionOf({ title: "Running now", id: "running" }, runningTable(running)) : null,
      trialsTable({
        id: "slowest",
        caption: "Slowest trials of the run",
        rows: slowest,
        hide: ["trained", "attempts"],
      }),
    ];
  },
};

// While the rollout ran; of the whole step where steps overlap: there verl's "gen" is only a wait for what runs anyway.
function busy(trials, generation, whole, slots) {
  const rows = trials.filter((row) => known(row.total) && (generation.get(row.step) || whole.get(row.step)));
  const value = (row) => {
    const spent = Math.max(row.total - (row.queued ?? 0), 0);
    const during = spent / (generation.get(row.step) || Infinity);
    return during > 0 && during <= 1.2 * (slots ?? Infinity)
      ? during
      : whole.get(row.step)
        ? spent / whole.get(row.step)
        : null;
  };
  return { x: rows.map((row) => row.step), y: rows.map(value) };
}

function numbers(trials, whole, phases, steps, generation, slots) {
  const recent = trials.filter((row) => whole.has(row.step)).slice(-5);
  const sum = (rows, name) => rows.reduce((total, row) => total + (row[name] ?? 0), 0);
  const count = sum(recent, "trials");
  const step = recent.length ? recent.reduce((total, row) => total + whole.get(row.step), 0) / recent.length : null;
  const rollout =
    recent.length && generation.size
      ? recent.reduce((total, row) => total + (generation.get(row.step) ?? 0), 0) / recent.length
      : null;
  const used = busy(recent, generation, whole, slots).y.filter(known);
  const mean = used.length ? used.reduce((a, b) => a + b, 0) / used.length : null;
  return stats(
    stat({ label: "a step", value: seconds(step), note: "mean of the last five", help: "rate" }),
    stat({
      label: "of it rollout",
      value: share(step && rollout !== null ? rollout / step : null, 0),
      note: seconds(rollout),
      help: "step_phases",
    }),
    stat({
      label: "a trial",
      value: seconds(count ? (sum(recent, "total") - sum(recent, "queued")) / count : null),
      note: count ? `and ${seconds(sum(recent, "queued") / count)} queued` : null,
      help: "phases",
    }),
    stat({
      label: "of it generation",
      value: share(
        count && sum(recent, "total") > sum(recent, "queued")
          ? sum(recent, "generation") / (sum(recent, "total") - sum(recent, "queued"))
          : null,
        0,
      ),
      note: "the policy's part",
      help: "phases",
    }),
    stat({
      label: "busy slots",
      value: fixed(mean, 1),
      note: slots ? `of ${slots}` : null,
      help: "slots",
      tone: slots && mean !== null && mean < 0.3 * slots ? "warn" : null,
    }),
  );
}

function runningTable(rows) {
  return table({
    id: "running-trials",
    caption: "Running now",
    hideCaption: true,
    rows,
    key: (row) => `${row.step}/${row.trial}`,
    columns: [
      { title: "trial", head: true, value: (row) => row.trial, cell: trialLink },
      { title: "step", value: (row) => row.step, align: "right" },
      { title: "task", value: (row) => row.task, help: "task" },
      { title: "harness", value: (row) => row.harness },
      { title: "began", value: (row) => row.started, cell: (row) => ago(row.started), align: "right" },
      { title: "attempts", value: (row) => row.attempts, align: "right", help: "attempts" },
    ],
  });
}
