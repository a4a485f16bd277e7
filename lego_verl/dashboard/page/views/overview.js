// Overview: is it alive, does it learn, can its numbers be trusted, what is to be looked at.

import { empty, h, note, sectionOf, stat, stats } from "../core/dom.js";
import { ago, fixed, known, measure, rate, seconds, share, time, tokens, whole, words } from "../core/format.js";
import { helpText } from "../core/help.js";
import { later } from "../core/later.js";
import { solveRateSeries } from "../core/series.js";
import { lineChart } from "../core/chart.js";
import { table } from "../core/table.js";
import { VIEWS } from "../core/views.js";

const SILENT_SECONDS = 600;

export default {
  title: "Overview",
  async load({ api }) {
    const [overview, learning, { events }] = await Promise.all([
      api.run("overview"),
      api.run("learning", { window: 5 }),
      api.run("events", { limit: 14 }),
    ]);
    return { overview, learning, events };
  },
  render({ overview, learning, events }, ctx) {
    return [
      h("h1", {}, "Overview"),
      overview.notes.map((line) => note("bad", line)),
      alerts(overview, ctx),
      h("div", { key: "numbers" }, numbers(overview, ctx)),
      h(
        "div",
        { class: "columns", key: "columns" },
        lineChart({
          id: "overview-solved",
          title: "Solve rate",
          unit: "%",
          help: "solve_rate",
          height: 240,
          series: solveRateSeries(learning, { smooth: learning.train.length > 12 }),
          href: (x) => ctx.link("trials", { step: x }),
          empty: "no trial is graded yet",
        }),
        sectionOf(
          { title: "What changed", help: "changes", id: "changes" },
          rates(overview),
          later(ctx, "changes", () => ctx.api.run("changes"), changed),
        ),
      ),
      h("div", { key: "events" }, eventTable(events, ctx)),
    ];
  },
};

function numbers(view, ctx) {
  const finished = view.total_steps && view.step >= view.total_steps;
  const silent = view.alive && view.silent_seconds > SILENT_SECONDS;
  const { pearson, entropy, proof_provenance: provenance, proof_context: context } = view.metrics;
  const dropped = view.trials ? view.dropped / view.trials : null;
  const exact = provenance && context ? Math.min(provenance.value, context.value) : null;
  return stats(
    stat({
      label: "state",
      value: view.alive ? (silent ? "silent" : "running") : finished ? "finished" : "not running",
      help: "alive",
      tone: silent || !(view.alive || finished) ? "warn" : "good",
      note: known(view.last_event) ? `last event ${ago(view.last_event)}` : "nothing happened yet",
    }),
    stat({
      label: "step",
      value: view.total_steps ? `${view.step} of ${view.total_steps}` : view.step,
      help: "step",
      note: running(view.running, view.alive),
    }),
    stat({
      label: "a step takes",
      value: seconds(view.seconds_a_step),
      help: "rate",
      href: ctx.link("time"),
      note:
        view.total_steps && view.alive && known(view.seconds_left)
          ? `about ${seconds(view.seconds_left)} left`
          : finished
            ? "done"
            : null,
    }),
    stat({
      label: "solve rate",
      value: view.solve_rate ? share(view.solve_rate.value) : "–",
      help: "solve_rate_recent",
      href: ctx.link("learning"),
      note: view.solve_rate ? `${range(view.solve_rate)}; first ${rate(view.solve_rate_before, 0)}` : null,
    }),
    stat({
      label: "held-out",
      value: view.heldout?.solve_rate ? share(view.heldout.solve_rate.value) : "–",
      help: "heldout",
      href: ctx.link("learning"),
      note: view.heldout ? `${range(view.heldout.solve_rate)} at step ${view.heldout.step}` : "not evaluated",
    }),
    stat({
      label: "pearson",
      value: fixed(pearson?.value, 5),
      help: "pearson",
      href: ctx.link("alignment"),
      tone: pearson && pearson.value < 0.99 ? "bad" : null,
      note: pearson ? `step ${pearson.step}` : null,
    }),
    stat({
      label: "proof",
      value: exact === null ? "–" : share(exact, 0),
      help: "proof",
      tone: exact === null ? null : exact === 1 ? "good" : "bad",
      note: "provenance and context",
    }),
    stat({ label: "entropy", value: entropy ? `${fixed(entropy.value, 3)}` : "–", help: "entropy", note: "nats" }),
    stat({
      label: "dropped",
      value: share(dropped),
      help: "dropped_share",
      href: ctx.link("outcomes"),
      tone: dropped > 0.25 ? "bad" : dropped > 0.05 ? "warn" : null,
      note: `${whole(view.dropped)} of ${whole(view.trials)} trials`,
    }),
    stat({
      label: "tokens",
      value: tokens(view.sampled_tokens),
      help: "tokens_recent",
      note: `sampled in ${view.recent_steps === 1 ? "one step" : `${view.recent_steps} steps`}`,
    }),
  );
}

function range(of) {
  return of ? `${(100 * of.low).toFixed(1)}–${(100 * of.high).toFixed(1)}` : "";
}

function running(parts, alive) {
  if (!parts.length) return "no trial is running";
  if (!alive) return `${whole(parts.reduce((sum, part) => sum + part.trials, 0))} trials without an ending`;
  return parts
    .map(
      (part) =>
        `${whole(part.trials)} ${part.split === "heldout" ? "held-out trials" : "trials"} running, step ${part.step}`,
    )
    .join("; ");
}

// Open alerts, the worst first; each leads to the view that shows it. Then what else went wrong.
function alerts(view, ctx) {
  const bad = (each) => each.severity === "critical";
  const open = [...view.open_alerts].sort((a, b) => bad(b) - bad(a));
  const others = view.alerts.filter((event) => event.kind !== "alert").slice(0, 4);
  return [
    ...open.map((each) =>
      alertLine(
        `alert-${each.name}`,
        bad(each) ? "bad" : "warn",
        each.name ?? "alert",
        each.step,
        each.message,
        ctx,
        viewOf(each.look),
      ),
    ),
    ...others.map((event) =>
      alertLine(`event-${event.id}`, "warn", event.kind, event.step, event.data.message ?? event.data.error, ctx, null),
    ),
  ];
}

function alertLine(key, tone, name, step, message, ctx, view) {
  const at = known(step) ? [" at ", h("a", { href: ctx.link("trials", { step }) }, `step ${step}`)] : null;
  const look = view ? [" ", h("a", { href: ctx.link(view) }, `See ${VIEWS[view].title}`)] : null;
  return h(
    "p",
    { class: "notice", key, "data-tone": tone },
    h("span", { class: "mark", "aria-hidden": "true" }, "!"),
    h("span", {}, h("strong", {}, words(name)), at, ": ", message ?? "", look),
  );
}

// The view of an alert's own address ("#/run/NAME/VIEW"), where there is such a view.
function viewOf(look) {
  const name = /^#\/run\/[^/]+\/(\w+)/.exec(look ?? "")?.[1];
  return name && name in VIEWS && name !== "overview" ? name : null;
}

// The first five steps against the last: said where their intervals are apart, or that they are not.
function rates(view) {
  const { solve_rate: now, solve_rate_before: before } = view;
  if (!now || !before || view.step < 10) return null;
  const [words, mark] =
    now.low > before.high ? ["rose", "↗"] : now.high < before.low ? ["fell", "↘"] : ["is about what it was", "→"];
  return h(
    "p",
    { key: "rates" },
    `${mark} The solve rate ${words}: ${rate(before)} in the first five steps, ${rate(now)} in the last.`,
  );
}

function changed({ changes, looked_at: looked }) {
  if (!changes.length)
    return empty(
      "No measure of behaviour has a trend that chance would hardly make.",
      `${looked} measures were looked at.`,
    );
  return table({
    id: "changes",
    caption: "What changed",
    hideCaption: true,
    rows: changes,
    key: (row) => row.measure,
    columns: [
      {
        title: "measure",
        head: true,
        value: (row) => words(row.measure),
        cell: (row) => h("span", {}, words(row.measure), helpText(row.what, words(row.measure))),
      },
      { title: "first", value: (row) => row.first, cell: (row) => measure(row.first, row.unit), align: "right" },
      { title: "last", value: (row) => row.last, cell: (row) => measure(row.last, row.unit), align: "right" },
      {
        title: "trend",
        value: (row) => row.says,
        cell: (row) =>
          h(
            "span",
            { class: "says" },
            row.direction === "rises" ? "↗ " : "↘ ",
            row.says,
            h("span", { class: "quiet" }, row.over === "steps" ? " (all steps)" : " (the same tasks)"),
          ),
      },
    ],
  });
}

function eventTable(events, ctx) {
  return table({
    id: "events",
    caption: "Recent events",
    rows: events,
    key: (event) => event.id,
    empty: "nothing has happened yet",
    columns: [
      {
        title: "when",
        head: true,
        align: "left",
        value: (event) => event.t,
        cell: (event) => h("span", { class: "when", title: ago(event.t) }, time(event.t)),
        help: "events",
      },
      { title: "what", value: (event) => words(event.kind) },
      { title: "step", value: (event) => event.step, align: "right" },
      {
        title: "trial",
        value: (event) => event.trial,
        cell: (event) =>
          event.trial && known(event.step)
            ? h("a", { href: ctx.link(["trial", event.step, event.trial]) }, event.trial)
            : "",
      },
      {
        title: "about",
        value: (event) => about(event.data),
        cell: (event) => h("span", { class: "says" }, about(event.data).slice(0, 200)),
      },
    ],
  });
}

function about(data) {
  const told = data.message ?? data.error;
  const rest = ["outcome", "task", "reward"]
    .filter((name) => known(data[name]))
    .map((name) => `${name} ${words(data[name])}`);
  return [...rest, told].filter(Boolean).join(", ");
}
