// A trial token by token: what was sampled, what the trainer made of it, trained or why not.

import { h, note, sectionOf, stat, stats, tag } from "../core/dom.js";
import { choice, filters, toggle } from "../core/filters.js";
import { known, number, tokens as short, whole, words } from "../core/format.js";
import { csv, saveText } from "../core/save.js";
import { table } from "../core/table.js";
import { COLOURS, legend, visible } from "./token_map.js";
import { SPLITS } from "./trial_summary.js";

const WINDOW = 1500;
const FLOATS = ["logprobs", "trainer", "difference", "entropies", "advantages", "weights"];

export async function loadTokens({ place, params, api }) {
  const of = `${place}/tokens/${Number(params.segment) || 0}`;
  const first = Math.floor((Number(params.at) || 0) / WINDOW) * WINDOW;
  const [about, tokens] = await Promise.all([api.run(`${of}/summary`), api.run(of, { first, count: WINDOW })]);
  return { about, of, api, tokens: { ...tokens, fates: about.fates.map((each) => each.fate) } };
}

export function tokensOf({ shown: { about, tokens, of, api } }, ctx) {
  const colour = ctx.params._colour;
  const chosen = ctx.params._token === undefined || ctx.params._token === "" ? null : Number(ctx.params._token);
  const to = (place) => ({ at: place - (place % WINDOW) || "0", _token: place });
  return [
    controls(about, ctx, to),
    sums(about, tokens),
    about.trial.trouble ? note("warn", about.trial.trouble) : null,
    why(about),
    map(about, ctx, to),
    h("div", { class: "legendrow", key: "legend" }, legend(colour, about), h("span", { class: "buttons" }, h("button", { type: "button", class: "small", onclick: () => saveAll(about, of, api, ctx) }, "CSV of all tokens"))),
    h("token-map", {
      key: "map", spec: {
        key: [of, tokens.first, tokens.total, about.scale, about.fates], tokens, colour, whole: ctx.params._context === "1", chosen,
        say: (place) => saying(about, tokens, place - tokens.first, of, api, ctx),
        onChoose: (place) => ctx.set({ _token: place }), onUnfold: () => ctx.set({ _context: "1" }),
      },
    }),
    pager(about, tokens, ctx),
    largest(about, ctx, to),
    fates(about),
  ];
}

function controls(about, ctx, to) {
  const jump = h("label", { class: "control", key: "jump" }, h("span", {}, "Go to"), h("select", { name: "jump", value: "", onchange: (event) => event.currentTarget.value !== "" && ctx.set(to(Number(event.currentTarget.value))) },
    h("option", { value: "" }, "a call…"), about.calls.map((call) => h("option", { value: call.first }, `call ${call.call} (${whole(call.last - call.first + 1)} tokens)`))));
  return filters(
    choice({ param: "segment", label: "Segment", options: about.segments.map((each) => [each.segment, `${each.segment}: ${words(each.reason)}${each.tokens ? "" : ", not trained"}`]), also: { at: "0", _token: "" } }),
    choice({ param: "_colour", label: "Colour by", options: COLOURS }), jump, toggle({ param: "_context", label: "unfold context" }));
}

function sums(about) {
  const { differences: of } = about;
  const trained = about.fates.find((each) => each.fate === "trained")?.tokens ?? 0;
  const sampled = about.calls.reduce((sum, call) => sum + call.last - call.first + 1, 0);
  return stats(
    stat({ label: "tokens", value: short(about.total), note: about.prompt ? `prompt ${short(about.prompt)}` : null, helpText: "Tokens of this segment, context included. The prompt is what its first call was sent." }),
    stat({ label: "sampled", value: short(sampled), helpText: "Tokens that the policy wrote in this segment." }),
    stat({ label: "trained", value: short(trained), tone: trained ? "good" : undefined, helpText: "Tokens that the trainer's loss was made of, with an advantage other than 0." }),
    stat({ label: "mean |difference|", value: number(of.mean), note: "nats", helpText: "Of the log-probabilities of a token in training and at generation, before the update: mean of the absolute difference over this segment's tokens with loss. Where both sides hold the same weights in float32 it is about 1e-6; numbers of less precision, and other kernels, make it larger." }),
    stat({ label: "99 of 100 under", value: number(of.q99), note: "nats", helpText: "99th percentile of the absolute difference." }),
    stat({ label: "largest", value: number(of.max), note: "nats", tone: of.max > 1 ? "warn" : undefined, helpText: "The largest absolute difference of this segment." }));
}

function why(about) {
  const rest = about.fates.filter((each) => each.tokens && !["context", "trained"].includes(each.fate));
  const trial = about.trial.fate === "trained" ? null : note(about.trial.fate === "undecided" ? "info" : "warn", about.trial.why, ".");
  const split = about.segments.find((each) => each.segment === about.segment && !each.tokens);
  return [trial, split ? note("info", `This segment is not trained (${words(split.reason)}: ${SPLITS[split.reason] ?? ""}). Only what was sampled in it is kept; where its context stood, positions jump.`) : null,
    !trial && rest.length ? note("info", rest.map((each) => `${whole(each.tokens)} token${each.tokens === 1 ? "" : "s"}: ${each.says}`).join("; "), ".") : null];
}

// The whole segment as a strip: where it differs most; a click goes there.
function map(about, ctx, to) {
  const name = { difference: "difference", logprobs: "logprobs", entropies: "entropies" }[ctx.params._colour] ?? "difference";
  const bins = about.bins[name];
  const top = Math.max(...bins.filter(known), 1e-12);
  if (about.total <= WINDOW && !bins.some(known)) return null;
  const at = Math.floor((Number(ctx.params.at) || 0) / WINDOW) * WINDOW;
  const go = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    ctx.set(to(Math.min(Math.floor(((event.clientX - box.left) / box.width) * about.total), about.total - 1)));
  };
  const says = { difference: "the largest |difference|", logprobs: "the lowest log-probability", entropies: "the highest entropy" }[name];
  return h("div", { class: "strip-of", key: "strip" },
    h("div", { class: "bins", role: "img", "aria-label": `The segment from its first token to its last: ${says} of each part`, onclick: go },
      bins.map((value, i) => h("span", { key: i, class: "bin", style: { height: known(value) ? `${Math.max(3, (100 * Math.log1p(value / top * 50)) / Math.log1p(50))}%` : "0" } })),
      about.total > WINDOW ? h("span", { key: "here", class: "here", style: { left: `${(100 * at) / about.total}%`, width: `${(100 * Math.min(WINDOW, about.total - at)) / about.total}%` } }) : null),
    h("p", { class: "quiet" }, `The whole segment: ${says} of each part, ${name === "logprobs" ? `down to ${number(-top)}` : `up to ${number(top)}`} nats. A click goes there.`));
}

function saying(about, tokens, i, of, api, ctx) {
  if (i < 0 || i >= tokens.id.length) return h("p", { class: "quiet" }, "The chosen token is on another page.");
  const sampled = tokens.call[i] >= 0;
  const fate = about.fates[tokens.fate[i]];
  const item = (name, value, unit) => [h("dt", {}, name), h("dd", {}, value, unit && value !== "–" ? h("span", { class: "unit" }, unit) : null)];
  const probability = (value) => (known(value) ? `, probability ${number(Math.exp(value))}` : "");
  const place = tokens.first + i;
  const parts = [
    h("p", { class: "what" }, h("code", {}, visible(tokens.text[i])), " ", tag(words(fate.fate), fate.fate === "trained" ? "good" : fate.fate === "context" ? undefined : "warn"), " ", h("span", { class: "quiet" }, fate.says)),
    h("dl", { class: "facts" }, item("Position", whole(tokens.position[i])), item("Id", tokens.id[i]),
      sampled ? [item("Call", h("a", { href: ctx.link(["trial", ...ctx.path], { tab: "turns", from: Math.floor(tokens.call[i] / 20) * 20 || "", _call: tokens.call[i] }) }, tokens.call[i])), item("Version", tokens.version[i]),
        item("Generation", number(tokens.logprobs[i], 6), `nats${probability(tokens.logprobs[i])}`), item("Training", number(tokens.trainer[i], 6), `nats${probability(tokens.trainer[i])}`),
        item("Difference", number(tokens.difference[i]), "nats"), item("Entropy", number(tokens.entropies[i]), "nats"),
        item("Advantage", number(tokens.advantages[i])), item("Weight", number(tokens.weights[i], 6))] : null)];
  if (sampled && about.routes) parts.push(expertsOf(of, place, api, ctx));
  return h("div", {}, parts);
}

const experts = new Map();

// By layer, asked for once a person points at a token.
function expertsOf(of, place, api, ctx) {
  const key = `${ctx.run}/${of}/${place}`;
  const shown = h("p", { class: "experts" }, "Experts: …");
  const fill = (rows) => { shown.textContent = rows ? `Experts that it was sampled with, by layer: ${rows.map((row, layer) => `${layer}: ${row.join(" ")}`).join(" · ")}` : "Experts are not known of it."; };
  if (experts.has(key)) fill(experts.get(key));
  else api.run(`${of}/experts/${place}`).then(({ experts: rows }) => { experts.set(key, rows); fill(rows); }, () => fill(null));
  return shown;
}

function pager(about, tokens, ctx) {
  if (about.total <= WINDOW) return null;
  const to = (first) => ctx.link(["trial", ...ctx.path], { ...ctx.params, tab: "tokens", at: first || "", _token: "" });
  const last = tokens.first + tokens.id.length;
  return h("nav", { class: "pages", key: "pages", "aria-label": "Pages of tokens" },
    tokens.first > 0 ? h("a", { href: to(tokens.first - WINDOW), rel: "prev" }, "‹ earlier") : h("span", { class: "quiet" }, "‹ earlier"),
    h("span", {}, `${whole(tokens.first)}–${whole(last - 1)} of ${whole(about.total)}`),
    last < about.total ? h("a", { href: to(last), rel: "next" }, "later ›") : h("span", { class: "quiet" }, "later ›"));
}

function largest(about, ctx, to) {
  if (!about.largest.length) return null;
  return sectionOf({ title: "Largest differences", id: "largest" }, table({
    id: "largest", caption: "Tokens on which training and generation differ most", hideCaption: true, rows: about.largest, key: (row) => row.place, save: "trial-largest", limit: 20,
    columns: [
      { title: "position", value: (row) => row.position, head: true, cell: (row) => h("button", { type: "button", class: "small", onclick: () => ctx.set(to(row.place)), "aria-label": `Go to the token at position ${row.position}` }, whole(row.position)) },
      { title: "token", value: (row) => row.text, cell: (row) => h("code", {}, visible(row.text).slice(0, 60)) },
      { title: "difference", unit: "nats", value: (row) => row.difference, cell: (row) => number(row.difference), helpText: "Log-probability in training, before the update, less that at generation." },
      { title: "generation", unit: "nats", value: (row) => row.logprobs, cell: (row) => number(row.logprobs, 5) },
      { title: "training", unit: "nats", value: (row) => row.trainer, cell: (row) => number(row.trainer, 5) },
    ],
  }));
}

function fates(about) {
  return sectionOf({ title: "What became of them", id: "fates" }, table({
    id: "fates", caption: "Tokens of this segment by what became of them", hideCaption: true, rows: about.fates.filter((each) => each.tokens), key: (row) => row.fate, save: "trial-fates",
    columns: [{ title: "tokens", value: (row) => row.tokens, cell: (row) => whole(row.tokens) }, { title: "fate", value: (row) => words(row.fate), head: true }, { title: "why", value: (row) => row.says }],
  }));
}

async function saveAll(about, of, api, ctx) {
  const all = await api.run(of, { first: 0, count: 1_000_000 });
  const columns = [{ title: "position" }, { title: "id" }, { title: "text" }, { title: "call" }, { title: "version" }, { title: "fate" },
    ...FLOATS.map((name) => ({ title: { logprobs: "generation", trainer: "training" }[name] ?? name, unit: ["advantages", "weights"].includes(name) ? null : "nats" }))];
  const none = (value) => (value < 0 ? null : value);
  const rows = all.id.map((id, i) => [all.position[i], id, all.text[i], none(all.call[i]), none(all.version[i]), about.fates[all.fate[i]].fate, ...FLOATS.map((name) => all[name][i])]);
  saveText(`${ctx.run}-${ctx.path[1]}-segment${about.segment}-tokens.csv`, csv(columns, rows));
}
