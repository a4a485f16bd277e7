// Outcomes: how trials ended by step, what was dropped and why, and that nothing is missing.

import { barChart } from "../core/chart.js";
import { OUTCOME_ORDER, isDropped, outcomeColour, palette } from "../core/colours.js";
import { empty, h, note, sectionOf, stat, stats } from "../core/dom.js";
import { filters, harnessChoice, splitChoice, toggle } from "../core/filters.js";
import { share, whole, words } from "../core/format.js";
import { table } from "../core/table.js";
import { outcomeTag } from "../core/trials.js";

export default {
  title: "Outcomes",
  defaults: { split: "train", harness: "", shares: "" },
  async load({ params, api }) {
    const [told, { outcomes }] = await Promise.all([
      api.run("outcomes", { split: params.split, harness: params.harness }),
      api.get("outcomes"),
    ]);
    return { ...told, texts: new Map(outcomes.map((each) => [each.outcome, each])) };
  },
  render({ rows, last_acts: lastActs, ledger, texts }, ctx) {
    const { params } = ctx;
    const to = (more) => ctx.link("trials", { split: params.split, harness: params.harness, ...more });
    const head = [
      h("h1", {}, "Outcomes"),
      filters(splitChoice(), harnessChoice(), toggle({ param: "shares", label: "as shares" })),
    ];
    if (!rows.length) return [...head, empty("No trial has begun.", "Trials appear as they start.")];
    const shares = params.shares === "1";
    const dropped = rows.filter((row) => row.trained === 0);
    return [
      ...head,
      h("div", { class: "part", key: "ledger" }, account(ledger, params, to)),
      barChart({
        id: "outcomes",
        title: "How trials ended",
        unit: shares ? "%" : "trials",
        help: "outcome",
        height: 320,
        series: stacked(rows, (row) => row.outcome, shares),
        href: (x, outcome) => to({ step: x, ...(outcome === "running" ? { state: "running" } : { outcome }) }),
        note: "Hatched: training does without it. A bar leads to its trials.",
      }),
      sectionOf({ title: "Every outcome of this run", help: "outcome", id: "every" }, every(rows, texts, to)),
      h(
        "div",
        { class: "columns", key: "columns" },
        dropped.length
          ? barChart({
              id: "dropped",
              title: "Dropped, by why",
              unit: shares ? "% of what was dropped" : "trials",
              help: "dropped",
              series: stacked(dropped, (row) => row.why_not ?? row.outcome, shares, false),
              href: (x, why) => to({ step: x, why_not: why }),
            })
          : sectionOf(
              { title: "Dropped, by why", help: "dropped", id: "dropped" },
              empty(
                params.split === "heldout"
                  ? "Held-out trials are never trained."
                  : "Training took every trial of every closed step.",
              ),
            ),
        lastActs.length
          ? barChart({
              id: "last-acts",
              title: "What their last turn did",
              unit: shares ? "%" : "trials",
              help: "last_act",
              series: acts(lastActs, shares),
            })
          : null,
      ),
    ];
  },
};

function account({ submitted, trained, dropped, pending }, params, to) {
  const holds = submitted === trained + dropped + pending;
  return [
    stats(
      stat({ label: "submitted", value: whole(submitted), help: "ledger", href: to({}) }),
      stat({
        label: "trained",
        value: whole(trained),
        help: "trained",
        note: share(submitted ? trained / submitted : null),
        href: to({ trained: 1 }),
      }),
      stat({
        label: "dropped",
        value: whole(dropped),
        help: "dropped",
        note: share(submitted ? dropped / submitted : null),
        href: to({ trained: "0" }),
        tone: dropped > 0.25 * submitted ? "warn" : null,
      }),
      stat({ label: params.split === "heldout" ? "evaluated" : "pending", value: whole(pending), help: "pending" }),
    ),
    note(
      holds ? "good" : "bad",
      `${whole(submitted)} submitted = ${whole(trained)} trained + ${whole(dropped)} dropped + ${whole(pending)} ${params.split === "heldout" ? "evaluated, which are never trained" : "pending"}. ${holds ? "The ledger holds." : "The ledger does not hold: a trial is missing."}`,
    ),
  ];
}

// One series for each name, in the order of the colours; shares of each step's sum where asked for.
function stacked(rows, nameOf, shares, hatched = true) {
  const by = new Map();
  const sums = new Map();
  for (const row of rows) {
    const name = nameOf(row);
    const steps = by.get(name) ?? by.set(name, new Map()).get(name);
    steps.set(row.step, (steps.get(row.step) ?? 0) + row.trials);
    sums.set(row.step, (sums.get(row.step) ?? 0) + row.trials);
  }
  const order = (name) => (OUTCOME_ORDER.includes(name) ? OUTCOME_ORDER.indexOf(name) : 99);
  return [...by]
    .sort(([a], [b]) => order(a) - order(b))
    .map(([name, steps]) => ({
      name: words(name),
      id: name,
      x: [...steps.keys()],
      y: [...steps].map(([step, count]) => (shares ? (100 * count) / sums.get(step) : count)),
      colour: () => outcomeColour(name),
      hatched: hatched && isDropped(name),
    }));
}

function acts(rows, shares) {
  const order = ["submit", "text", "edit", "test", "run", "read", "search", "other", "none", ""];
  const made = stacked(
    rows.map((row) => ({ ...row, act: row.last_act.split(" ").at(-1) || "not known" })),
    (row) => row.act,
    shares,
    false,
  );
  made.sort((a, b) => order.indexOf(a.id) - order.indexOf(b.id));
  return made.map((each, i) => ({ ...each, colour: () => palette(i) }));
}

function every(rows, texts, to) {
  const sums = new Map();
  let all = 0;
  for (const row of rows) {
    const sum =
      sums.get(row.outcome) ??
      sums.set(row.outcome, { outcome: row.outcome, trials: 0, trained: 0, dropped: 0, last: 0 }).get(row.outcome);
    sum.trials += row.trials;
    if (row.trained === 1) sum.trained += row.trials;
    if (row.trained === 0) sum.dropped += row.trials;
    sum.last = Math.max(sum.last, row.step);
    all += row.trials;
  }
  const of = (row) => (row.outcome === "running" ? { state: "running" } : { outcome: row.outcome });
  return table({
    id: "every-outcome",
    caption: "Every outcome of this run",
    hideCaption: true,
    rows: [...sums.values()],
    sort: "-trials",
    key: (row) => row.outcome,
    columns: [
      {
        title: "outcome",
        head: true,
        value: (row) => row.outcome,
        cell: (row) =>
          h("a", { class: "plain", href: to(of(row)) }, outcomeTag(row.outcome === "running" ? null : row.outcome)),
      },
      { title: "trials", value: (row) => row.trials, cell: (row) => whole(row.trials), align: "right" },
      {
        title: "share",
        unit: "%",
        value: (row) => (100 * row.trials) / all,
        cell: (row) => share(row.trials / all),
        align: "right",
      },
      { title: "training", value: (row) => texts.get(row.outcome)?.treatment ?? "–", help: "treatment" },
      {
        title: "trained",
        value: (row) => row.trained,
        cell: (row) => whole(row.trained),
        align: "right",
        help: "trained",
      },
      {
        title: "dropped",
        value: (row) => row.dropped,
        cell: (row) => whole(row.dropped),
        align: "right",
        help: "dropped",
      },
      { title: "last at step", value: (row) => row.last, align: "right" },
      {
        title: "what it means",
        value: (row) => texts.get(row.outcome)?.cause ?? "",
        cell: (row) => h("span", { class: "says" }, texts.get(row.outcome)?.cause ?? "it runs"),
      },
    ],
  });
}
