// Alignment: do generation and training agree on the tokens that carry loss, and how old were the weights.

import { lineChart } from "../core/chart.js";
import { token } from "../core/colours.js";
import { empty, h, note, sectionOf, stat, stats } from "../core/dom.js";
import { choice, filters } from "../core/filters.js";
import { number, share } from "../core/format.js";
import { table } from "../core/table.js";

const BY = { overall: "all tokens", by_harness: "harness", by_segment: "segment of its trial", by_position: "position: tokens from the start", by_lag: "lag: updates since they were sampled" };
const LABEL = { by_segment: (each) => `segment ${each}`, by_position: (each) => `from ${each}`, by_lag: (each) => `lag ${each}` };

// [measure, title, unit, what it is, key of a guard, its side]
const CORRELATIONS = [
  ["pearson_probabilities", "Correlation of probabilities", "", "Pearson's correlation between the probabilities of the sampled tokens at generation and in training. The bound is of tokens that the trainer's own weights sampled; older ones may differ.", "min_pearson", "low"],
  ["pearson", "Correlation of log-probabilities", "", "Pearson's correlation of the log-probabilities: rare tokens count as much as frequent ones."],
  ["spearman", "Rank correlation", "", "Spearman's: whether both sides order tokens alike."],
];
const DIFFERENCES = [
  ["difference_mean", "Mean difference of probabilities", "", "Mean of |p − q| over tokens; p in training, q at generation."],
  ["difference_max", "Largest difference of probabilities", "", "The largest |p − q| of any token of the step."],
  ["log_ratio_std", "Deviation of log p/q", "nats", "Standard deviation over tokens of log(p/q): what lego.correction.log_ratio_std is told."],
];
const DIVERGENCES = [
  ["k1", "k1", "nats", "Mean of log(q/p): an unbiased estimate of KL(q ‖ p) that may be negative."],
  ["k2", "k2", "nats", "Mean of log(q/p)²/2: low variance, some bias."],
  ["k3", "k3", "nats", "Mean of p/q − 1 − log(p/q): unbiased and never negative."],
];
const WEIGHTS = [["weight_min", "smallest"], ["weight_q01", "1 % under"], ["weight_q50", "median"], ["weight_q99", "99 % under"], ["weight_max", "largest"]];

export default {
  title: "Alignment",
  defaults: { by: "overall" },
  load: ({ api }) => api.run("alignment"),
  render(data, ctx) {
    const head = [h("h1", {}, "Alignment")];
    const names = Object.keys(data.metrics);
    if (!names.length && !data.staleness.length) return [...head, empty("No step has ended yet.", "Generation and training are compared once a step's tokens have been through the trainer.")];
    const by = ctx.params.by in BY ? ctx.params.by : "overall";
    const compared = names.some((name) => name.startsWith("alignment/overall/"));
    return [
      ...head,
      filters(choice({ param: "by", label: "Tokens by", options: Object.entries(BY) })),
      h("div", { key: "now" }, now(data)),
      compared ? null : note("info", data.correction.bypass_mode ? "This run takes the rollout's log-probabilities for the trainer's own (algorithm.rollout_correction.bypass_mode): there is nothing to compare." : "This run wrote no comparison of tokens."),
      compared ? [
        charts("Agreement", CORRELATIONS, data, by),
        charts("Differences", DIFFERENCES, data, by),
        charts("Divergence, KL(generation ‖ training)", DIVERGENCES, data, by),
        sectionOf({ title: "Importance weights", id: "weights" }, h("div", { class: "grid" }, weights(data, by), measured(["effective_share", "Effective share of tokens", "%", "Effective sample size of the importance weights p/q, (Σr)²/Σr², as a share of the tokens: 100 % where both sides agree; under the bound a step is not trained.", "min_effective_share", "low"], data, by, 100), measured(["tokens", "Tokens compared", "tokens", "Tokens with loss that were compared."], data, by))),
      ] : null,
      age(data, ctx),
      canary(data),
      routes(data),
      corrected(data),
      recipe(data, ctx),
    ];
  },
};

// Where we are: the newest step, with the bounds.
function now({ metrics, guards, staleness }) {
  const last = (name) => metrics[name]?.findLast(([, value]) => value !== null) ?? [null, null];
  const [step, pearson] = last("alignment/by_lag/0/pearson_probabilities");
  const [, effective] = last("alignment/overall/effective_share");
  const [, k3] = last("alignment/overall/k3");
  const [, difference] = last("canary_difference");
  const [, arrived] = last("canary_arrived");
  const [, provenance] = last("proof_provenance");
  const [, context] = last("proof_context");
  const stale = staleness.at(-1);
  const under = (value, bound) => (value === null || bound === null || bound === undefined || bound === 0 ? undefined : value < bound ? "bad" : "good");
  return stats(
    stat({ label: "correlation", value: number(pearson, 6), tone: under(pearson, guards.min_pearson), note: guards.min_pearson ? `bound ${guards.min_pearson}${step === null ? "" : `, step ${step}`}` : "no bound", helpText: "Correlation of the probabilities of tokens that the trainer's own weights sampled, in the newest step that has any. Under the bound (lego.guard.min_pearson) a step is not trained." }),
    stat({ label: "effective share", value: share(effective), tone: under(effective, guards.min_effective_share), note: guards.min_effective_share ? `bound ${share(guards.min_effective_share, 0)}` : "no bound", helpText: "Effective sample size of the importance weights, as a share of the step's tokens." }),
    stat({ label: "divergence (k3)", value: number(k3), note: "nats a token", helpText: "Estimate of KL(generation ‖ training) that is never negative." }),
    stat({ label: "canary difference", value: number(difference), tone: difference === null ? undefined : difference > guards.canary_tolerance ? "bad" : "good", note: guards.canary ? `tolerance ${number(guards.canary_tolerance)} nats` : "switched off", helpText: "After every weight sync both engines score fixed sequences: root mean square of the difference, in nats." }),
    stat({ label: "canary arrived", value: number(arrived), helpText: "Of the change that the trainer's weights made on the canary, how much of it shows in the rollout: 1 where the sync brought all of it. Not known where nothing changed." }),
    stat({ label: "proof", value: provenance === null ? "–" : `${share(provenance, 0)} / ${share(context, 0)}`, tone: provenance === null ? undefined : provenance === 1 && context === 1 ? "good" : "bad", help: "proof" }),
    stat({ label: "lag", value: number(stale?.lag), note: stale ? `longest ${stale.longest_lag} updates` : null, helpText: "Weight updates between a trial's last token and the step that trained it: mean over the newest step's trials. 0 where steps do not overlap." }));
}

function series({ metrics }, by, name, scale = 1) {
  const found = [];
  const prefix = `alignment/${by}/`;
  for (const [key, points] of Object.entries(metrics)) {
    if (!key.startsWith(prefix)) continue;
    const rest = key.slice(prefix.length);
    const label = by === "overall" ? (rest === name ? "all tokens" : null) : rest.endsWith(`/${name}`) ? rest.slice(0, -name.length - 1) : null;
    if (label === null) continue;
    found.push({ name: by === "overall" ? label : LABEL[by]?.(label) ?? label, order: label, x: points.map(([step]) => step), y: points.map(([, value]) => (value === null ? null : scale * value)), gaps: true });
  }
  return found.sort((a, b) => a.order.localeCompare(b.order, "en", { numeric: true }));
}

function charts(title, measures, data, by) {
  return sectionOf({ title, id: title }, h("div", { class: "grid" }, measures.map((each) => measured(each, data, by))));
}

function measured([name, title, unit, says, guard], data, by, scale = 1) {
  const found = series(data, by, name, scale);
  const bound = guard ? data.guards[guard] : null;
  return lineChart({
    id: `${name}-${by}`, title, unit, helpText: says + (bound ? ` Bound of this run: ${bound} (lego.guard.${guard}).` : ""), series: found, height: 210,
    layout: () => (bound ? bounded(scale * bound, `bound ${number(scale * bound)}`) : {}),
    empty: "this run has no such tokens",
  });
}

function bounded(value, text) {
  return {
    shapes: [{ type: "line", xref: "paper", x0: 0, x1: 1, y0: value, y1: value, line: { color: token("bad"), width: 1.5, dash: "dash" } }],
    annotations: [{ xref: "paper", x: 1, y: value, text, showarrow: false, xanchor: "right", yanchor: "bottom", font: { color: token("bad"), size: 11 } }],
  };
}

function weights(data, by) {
  const all = by === "overall";
  const found = all ? WEIGHTS.flatMap(([name, says]) => series(data, by, name).map((each) => ({ ...each, name: says, dash: name === "weight_q50" ? undefined : "dot" }))) : series(data, by, "weight_q99");
  return lineChart({
    id: `weights-${by}`, title: all ? "Quantiles of p/q" : "99 % of p/q are under", helpText: "Importance weights of the tokens: probability in training divided by that at generation. 1 where both agree; on a logarithmic scale.",
    series: found, height: 210, layout: { yaxis: { type: "log" } }, empty: "this run has no such tokens",
  });
}

function age({ staleness, overlapping, version_span: span, off_policy_steps: steps }, ctx) {
  if (!staleness.length) return null;
  const x = staleness.map((row) => row.step);
  const href = (step) => ctx.link("trials", { step });
  return sectionOf({ title: "Age of the weights", id: "age" },
    h("p", { class: "quiet" }, overlapping ? `Steps overlap: trials go on while the policy is updated${span === null ? "" : `; a trial that lives through more than ${span} updates is dropped`}${steps ? `; a group that waits for more than ${steps} steps is dropped` : ""}.` : "Steps do not overlap: every token is of the weights that are trained, and lag is 0."),
    h("div", { class: "grid" },
      lineChart({ id: "lag", title: "Lag", unit: "updates", height: 210, helpText: "Weight updates between a trial's last token and the step that trained it.", series: [{ name: "mean", x, y: staleness.map((row) => row.lag) }, { name: "longest", x, y: staleness.map((row) => row.longest_lag), dash: "dot" }], href }),
      lineChart({ id: "span", title: "Span", unit: "updates", height: 210, helpText: "Weight updates that a trial lived through: between its first token and its last.", series: [{ name: "mean", x, y: staleness.map((row) => row.span) }, { name: "widest", x, y: staleness.map((row) => row.widest_span), dash: "dot" }], href, layout: () => (span ? bounded(span, `at most ${span}`) : {}) })));
}

function of({ metrics }, name, label) {
  const points = metrics[name] ?? [];
  return { name: label, x: points.map(([step]) => step), y: points.map(([, value]) => value), gaps: true };
}

function canary(data) {
  const has = (name) => data.metrics[name]?.some(([, value]) => value !== null);
  if (!has("canary_difference") && !has("canary_change")) return null;
  return sectionOf({ title: "Canary", id: "canary" }, h("p", { class: "quiet" }, "After every weight sync both engines score the same fixed sequences. They must agree, and both must have moved."),
    h("div", { class: "grid" },
      lineChart({ id: "canary-difference", title: "Difference", unit: "nats", height: 210, helpText: "Root mean square of the difference between the log-probabilities of trainer and rollout; of the server that differs most.", series: [of(data, "canary_difference", "difference")], layout: () => ({ yaxis: { type: "log" }, ...(data.guards.canary ? logBound(data.guards.canary_tolerance, "tolerance") : {}) }) }),
      lineChart({ id: "canary-change", title: "Change", unit: "nats", height: 210, helpText: "How far the trainer's log-probabilities moved since the check before: root mean square.", series: [of(data, "canary_change", "change")] }),
      has("canary_arrived") ? lineChart({ id: "canary-arrived", title: "Arrived", unit: "share of the change", height: 210, helpText: "How much of the trainer's change shows in the rollout: 1 where the sync brought all of it; of the server where it is farthest from 1.", series: [of(data, "canary_arrived", "arrived")] }) : null,
      has("canary_routes_changed") ? lineChart({ id: "canary-routes", title: "Routes changed", unit: "share", height: 210, helpText: "Share of the experts chosen for the canary that differ from the check before.", series: [of(data, "canary_routes_changed", "changed")] }) : null,
      has("canary_replay_difference") ? lineChart({ id: "canary-replay", title: "Difference with replayed routes", unit: "nats", height: 210, helpText: "The same difference where the trainer is given the rollout's experts.", series: [of(data, "canary_replay_difference", "difference")] }) : null));
}

function logBound(value, text) {
  const made = bounded(value, `${text} ${number(value)}`);
  made.annotations[0].y = Math.log10(value);
  return made;
}

function routes(data) {
  const layers = Object.keys(data.metrics).filter((name) => name.startsWith("alignment/routes/agreement_by_layer/"));
  if (!layers.length) return null;
  layers.sort((a, b) => a.localeCompare(b, "en", { numeric: true }));
  return sectionOf({ title: "Expert routes", id: "routes" }, h("p", { class: "quiet" }, `Router replay: ${data.router_replay ?? "not known"}. What is replayed is what generation chose; agreement is what the trainer's own routers would have chosen.`),
    h("div", { class: "grid" },
      lineChart({ id: "routes-agreement", title: "Agreement", unit: "share", height: 210, helpText: "Of the experts that generation chose, the share that the trainer's own routers choose too: over tokens with loss and layers.", series: [of(data, "alignment/routes/agreement", "agreement")] }),
      lineChart({ id: "routes-layers", title: "Agreement by layer", unit: "share", height: 210, helpText: "The same for each layer. A layer that falls behind the others is where routing tips first.", series: layers.map((name) => of(data, name, `layer ${name.split("/").at(-1)}`)) }),
      lineChart({ id: "routes-replayed", title: "Replayed", unit: "share of tokens", height: 210, helpText: "Share of the tokens with loss whose experts were recorded at generation and given to the trainer.", series: [of(data, "alignment/routes/replayed_share", "replayed")] })));
}

// verl's own figures of its correction, whichever there are.
function corrected(data) {
  const names = Object.keys(data.metrics).filter((name) => name.startsWith("rollout_corr/") || name.startsWith("training/rollout_"));
  if (!names.length) return null;
  const rows = names.map((name) => ({ name, points: data.metrics[name].filter(([, value]) => value !== null) })).filter((row) => row.points.length);
  return sectionOf({ title: "verl's own figures", id: "verl" }, table({
    id: "verl", caption: "What verl measures of rollout and trainer, newest step", hideCaption: true, rows, key: (row) => row.name, save: "alignment-verl",
    columns: [{ title: "metric", value: (row) => row.name, head: true }, { title: "first", value: (row) => row.points[0][1], cell: (row) => number(row.points[0][1]) }, { title: "newest", value: (row) => row.points.at(-1)[1], cell: (row) => number(row.points.at(-1)[1]) }, { title: "step", value: (row) => row.points.at(-1)[0] }],
  }));
}

function recipe({ guards, correction }, ctx) {
  const rows = [...Object.entries(guards).map(([name, value]) => [`lego.guard.${name}`, value]), ...Object.entries(correction).map(([name, value]) => [`algorithm.rollout_correction.${name}`, value])].map(([name, value]) => ({ name, value }));
  return sectionOf({ title: "Bounds and correction of this run", id: "bounds", aside: h("a", { href: ctx.link("recipe", { q: "rollout_correction" }) }, "in the recipe") }, table({
    id: "bounds", caption: "Bounds and correction", hideCaption: true, rows, key: (row) => row.name, save: "alignment-bounds",
    columns: [{ title: "key", value: (row) => row.name, head: true }, { title: "value", value: (row) => (row.value === null ? "null" : String(row.value)), align: "left" }],
  }));
}

