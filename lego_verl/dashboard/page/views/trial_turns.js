// A trial turn by turn, as the agent saw it: what was new in each request, and the reply.

import { h, note, tag } from "../core/dom.js";
import { number, seconds, tokens, whole, words } from "../core/format.js";
import { SPLITS } from "./trial_summary.js";

const PAGE = 20;
const FOLDED = 1200; // characters of a tool's output, or LINES, beyond which it is folded
const LINES = 16;

export async function loadTurns({ place, params, api }) {
  return api.run(`${place}/turns`, { first: params.from || 0, count: PAGE });
}

export function turnsOf({ about, shown, place }, ctx) {
  const last = shown.first + shown.turns.length;
  if (!shown.calls) return note("info", "The policy was asked for nothing.");
  return [
    h("p", { class: "quiet", key: "intro" }, `Calls ${shown.first}–${last - 1} of ${whole(shown.calls)}: what was new in each request, then the reply. What was said before in the same segment is not shown again.`),
    pager(shown, ctx, "top"),
    h("ol", { class: "turns", start: String(shown.first), key: "turns" }, shown.turns.map((turn) => turnOf(turn, about, place, ctx))),
    pager(shown, ctx, "bottom"),
  ];
}

function pager(shown, ctx, where) {
  if (shown.calls <= PAGE) return null;
  const to = (from) => ctx.link(["trial", ...ctx.path], { ...ctx.params, from: from || "", _call: "" });
  const last = shown.first + shown.turns.length;
  return h("nav", { class: "pages", key: `pages-${where}`, "aria-label": `Pages of turns, ${where}` },
    shown.first > 0 ? h("a", { href: to(Math.max(shown.first - PAGE, 0)), rel: "prev" }, "‹ earlier") : h("span", { class: "quiet" }, "‹ earlier"),
    h("span", {}, `${shown.first}–${last - 1}`),
    last < shown.calls ? h("a", { href: to(last), rel: "next" }, "later ›") : h("span", { class: "quiet" }, "later ›"));
}

function turnOf(turn, about, place, ctx) {
  const chosen = String(turn.call) === ctx.params._call;
  if (chosen) reveal(`call-${turn.call}`, `${place}/${turn.call}`);
  const whole = (message, part) => `${apiPlace(ctx, place)}/text/${turn.call}/${message}/${part}`;
  const again = turn.kept === 0 && turn.segment > 0 && turn.messages.length > 3;
  const messages = turn.messages.map((message, i) => messageOf(message, i, whole));
  return h("li", { class: "turn", key: turn.call, id: `call-${turn.call}`, "data-chosen": chosen ? "" : null },
    turn.begins && turn.segment > 0 ? h("p", { class: "split" }, h("strong", {}, `Segment ${turn.segment} begins`), ": ", tag(words(turn.begins), "warn"), " ", SPLITS[turn.begins] ?? "") : null,
    h("h3", {}, h("a", { href: ctx.link(["trial", ...ctx.path], { ...ctx.params, _call: turn.call }) }, `Call ${turn.call}`),
      turn.origin === "main" ? null : tag(words(turn.origin)), turn.reply.silent ? tag("no tool call", "warn") : null, turn.reply.malformed ? tag(`${turn.reply.malformed} malformed`, "bad") : null,
      h("span", { class: "quiet" }, ` segment ${turn.segment} · ${tokens(turn.prompt_tokens)} tokens in, ${tokens(turn.sampled_tokens)} out · ${seconds(turn.seconds)} · version ${turn.versions.join(", ") || "–"} · mean log-probability ${number(turn.mean_logprob)}${turn.finish === "stop" ? "" : ` · ended by ${turn.finish}`}`)),
    turn.tools?.length ? h("details", { class: "offered" }, h("summary", {}, `${turn.tools.length} tool${turn.tools.length === 1 ? "" : "s"} offered: ${turn.tools.map((tool) => tool.name).slice(0, 8).join(", ")}${turn.tools.length > 8 ? ", …" : ""}`),
      h("dl", {}, turn.tools.map((tool) => [h("dt", {}, h("code", {}, tool.name)), h("dd", {}, tool.description || "–")]))) : null,
    again ? h("details", { class: "again" }, h("summary", {}, `The ${turn.messages.length} messages that this segment begins with`), messages) : messages,
    replyOf(turn.reply, about, whole));
}

let revealed = null;

// Once for each time that a call is chosen, and not again when the page is told something new.
function reveal(id, key) {
  if (key === revealed) return;
  revealed = key;
  requestAnimationFrame(() => document.getElementById(id)?.scrollIntoView({ block: "start" }));
}

function messageOf(message, i, whole) {
  const output = message.role === "tool";
  const calls = message.tool_calls.map((call, n) => callOf(call, null, whole(i, n)));
  return h("div", { class: "message", "data-role": message.role, key: `m${i}` },
    h("h4", {}, { tool: "Tool output", system: "System", user: "To the agent", assistant: "Agent, as it was sent back" }[message.role] ?? message.role),
    message.reasoning ? textOf(message.reasoning, { href: whole(i, "reasoning"), kind: "thinking", fold: true, title: "Thinking" }) : null,
    message.text.size || !calls.length ? textOf(message.text, { href: whole(i, "text"), fold: output || message.role === "system", title: output ? "output" : "text" }) : null,
    calls);
}

function replyOf(reply, about, whole) {
  return h("div", { class: "message", "data-role": "reply", key: "reply" },
    h("h4", {}, "Agent"),
    reply.reasoning ? h("div", { class: "thinking" }, h("span", { class: "quiet" }, "thinking"), textOf(reply.reasoning, { href: whole(-1, "reasoning"), fold: true, title: "thinking" })) : null,
    reply.text.size ? textOf(reply.text, { href: whole(-1, "text"), fold: false, title: "text" }) : null,
    reply.tool_calls.map((call, n) => callOf(call, reply.acts[n], whole(-1, n))),
    !reply.text.size && !reply.tool_calls.length && !reply.reasoning ? h("p", { class: "quiet" }, "an empty reply") : null);
}

function callOf(call, act, href) {
  const marks = act ? [...new Set(act.kinds)].map((kind) => tag(words(kind))) : [];
  const failed = act?.failed ? tag("said that it failed", "warn") : null;
  const malformed = act?.malformed ? tag(act.malformed, "bad") : null;
  const given = call.arguments
    ? Object.entries(call.arguments).map(([name, value]) => h("div", { class: "argument", key: name }, h("span", { class: "name" }, name), textOf(value, { href, fold: true, title: name })))
    : textOf(call.raw, { href, fold: true, title: "arguments" });
  return h("div", { class: "toolcall", key: call.id || href }, h("p", {}, h("code", { class: "tool" }, call.name || "(no name)"), " ", marks, failed, malformed), given);
}

// A text, folded where it is long; what was left out on the server is said, and can be saved whole.
export function textOf(text, { href, fold, title }) {
  const lines = text.text.split("\n").length;
  const cut = text.left_out ? h("p", { class: "cut" }, `${whole(text.left_out)} of ${whole(text.size)} characters are left out here. `, h("a", { href, download: "" }, `Save the whole ${title}`)) : null;
  const body = [h("pre", { tabindex: "0", "aria-label": title }, text.text), cut, text.end ? h("pre", { tabindex: "0", "aria-label": `end of the ${title}` }, text.end) : null];
  if (!fold || (text.size <= FOLDED && lines <= LINES)) return h("div", { class: "text" }, body);
  const first = text.text.split("\n").find((line) => line.trim()) ?? "";
  return h("details", { class: "text" }, h("summary", {}, h("code", {}, first.slice(0, 110)), h("span", { class: "quiet" }, ` ${whole(text.size)} characters${text.left_out ? "" : `, ${whole(lines)} lines`}`)), body);
}

export function apiPlace(ctx, place) {
  return `api/runs/${encodeURIComponent(ctx.run)}/${place}`;
}
