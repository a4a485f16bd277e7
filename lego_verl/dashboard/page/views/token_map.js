// <token-map>: tokens as boxes, coloured by one of their numbers; the one that is pointed at, or chosen by arrow keys,
// is told in full below. It draws itself, since thousands of boxes are not to be made anew for every change of the page.

import { h } from "../core/dom.js";
import { known, number, words } from "../core/format.js";

const NEAR = 12; // tokens of context that stay around sampled ones where context is folded

// What a box is coloured by: steps(i) is the class of colour, from 0 (nothing to see) to 6.
const BOUNDS = {
  difference: [1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.5],
  logprobs: [0.01, 0.1, 0.5, 1, 2, 4],
  entropies: [0.01, 0.1, 0.5, 1, 2, 3],
};

export const COLOURS = [
  ["difference", "difference, training − generation"], ["logprobs", "log-probability at generation"], ["entropies", "entropy in training"],
  ["version", "weight version"], ["fate", "what became of it"],
];

// {key, tokens (columns of the API), colour, whole (context unfolded), chosen (place), say(place) -> columns of one token, fates, onChoose(place), onUnfold()}
class TokenMap extends HTMLElement {
  #spec = null;
  #drawn = "";
  #at = null;

  set spec(spec) {
    this.#spec = spec;
    const drawn = JSON.stringify([spec.key, spec.colour, spec.whole]);
    if (drawn !== this.#drawn) {
      this.#drawn = drawn;
      this.#draw();
    }
    this.#choose(spec.chosen, false);
  }

  get spec() {
    return this.#spec ?? undefined;
  }

  #draw() {
    const { tokens, colour, whole } = this.#spec;
    const parts = [];
    let run = null;
    tokens.id.forEach((_, i) => {
      if (!whole && folded(tokens, i)) {
        run ??= { first: i, count: 0 };
        run.count += 1;
        return;
      }
      if (run) parts.push(this.#gap(run));
      run = null;
      parts.push(box(tokens, i, colour));
    });
    if (run) parts.push(this.#gap(run));
    const list = h("div", {
      class: "tokens", role: "listbox", tabindex: "0", "aria-label": "Tokens: arrow keys go from one to the next", onkeydown: (event) => this.#key(event),
      onclick: (event) => { const place = placeOf(event); if (place !== null) this.#spec.onChoose(place); },
      onmouseover: (event) => { const place = placeOf(event); if (place !== null) this.#tell(place); },
      onmouseleave: () => this.#tell(this.#at),
      onfocus: () => { if (this.#at === null) this.#step(0); },
    }, parts);
    this.replaceChildren(list, h("div", { class: "told", "aria-live": "polite" }));
    this.#at = null;
    this.#tell(null);
  }

  #gap({ count }) {
    return h("span", { class: "gap", role: "option", "aria-selected": "false", title: "unfold", onclick: (event) => { event.stopPropagation(); this.#spec.onUnfold(); } }, `⋯ ${count} tokens of context ⋯`);
  }

  #boxes() {
    return [...this.querySelectorAll("[data-place]")];
  }

  #key(event) {
    const by = { ArrowRight: 1, ArrowLeft: -1, ArrowDown: 20, ArrowUp: -20, PageDown: 100, PageUp: -100, Home: -1e9, End: 1e9 }[event.key];
    if (by === undefined) return;
    event.preventDefault();
    this.#step(by);
  }

  #step(by) {
    const boxes = this.#boxes();
    if (!boxes.length) return;
    const now = boxes.findIndex((each) => Number(each.dataset.place) === this.#at);
    const next = boxes[Math.min(Math.max(now < 0 ? 0 : now + by, 0), boxes.length - 1)];
    this.#choose(Number(next.dataset.place), true);
    clearTimeout(this.later);
    this.later = setTimeout(() => this.#spec.onChoose(this.#at), 300); // not an address for every key that is held down
  }

  #choose(place, scroll) {
    if (place === this.#at) return;
    const found = place === null ? null : this.querySelector(`[data-place="${place}"]`);
    this.querySelector("[aria-selected=true]")?.setAttribute("aria-selected", "false");
    this.#at = found ? place : null;
    found?.setAttribute("aria-selected", "true");
    const list = this.querySelector("[role=listbox]");
    if (found) list?.setAttribute("aria-activedescendant", found.id);
    else list?.removeAttribute("aria-activedescendant");
    if (found && (scroll || !inSight(found, list))) found.scrollIntoView({ block: "nearest", inline: "nearest" });
    this.#tell(this.#at);
  }

  #tell(place) {
    const told = this.querySelector(".told");
    if (told) told.replaceChildren(place === null ? h("p", { class: "quiet" }, "Point at a token, or choose one, to see all that is known of it.") : this.#spec.say(place));
  }
}

customElements.define("token-map", TokenMap);

function placeOf(event) {
  const place = event.target.dataset?.place;
  return place === undefined ? null : Number(place);
}

function inSight(node, list) {
  const [a, b] = [node.getBoundingClientRect(), list.getBoundingClientRect()];
  return a.top >= b.top && a.bottom <= b.bottom;
}

// Context that is far from anything sampled.
function folded(tokens, i) {
  if (tokens.call[i] >= 0) return false;
  tokens.near ??= nearest(tokens.call);
  return tokens.near[i] > NEAR;
}

function nearest(calls) {
  const far = calls.map(() => Infinity);
  let since = Infinity;
  for (let i = 0; i < calls.length; i += 1) far[i] = since = calls[i] >= 0 ? 0 : since + 1;
  since = Infinity;
  for (let i = calls.length - 1; i >= 0; i -= 1) {
    since = calls[i] >= 0 ? 0 : since + 1;
    far[i] = Math.min(far[i], since);
  }
  return far;
}

function box(tokens, i, colour) {
  const place = tokens.first + i;
  const sampled = tokens.call[i] >= 0;
  return h("span", {
    id: `t${place}`, role: "option", "aria-selected": "false", class: sampled ? "tok" : "ctx", "data-place": place,
    "data-c": sampled ? classOf(tokens, i, colour) : null, "data-scale": sampled ? colour : null, "data-fate": tokens.fates[tokens.fate[i]], "aria-label": spoken(tokens.text[i]),
  }, visible(tokens.text[i]));
}

// What is not to be heard of a text without letters; null where the text itself will do.
function spoken(text) {
  if (text.trim()) return null;
  return text === "" ? "nothing" : [...text].map((each) => ({ " ": "space", "\n": "line break", "\t": "tab" })[each] ?? "blank").join(" ");
}

export function visible(text) {
  return text === "" ? "∅" : text.replaceAll("\n", "⏎\n").replaceAll("\t", "⇥\t");
}

// 0 to 6, or for versions 0 to 7; null where it is not known.
export function classOf(tokens, i, colour) {
  if (colour === "version") return tokens.version[i] < 0 ? null : tokens.version[i] % 8;
  if (colour === "fate") return null;
  const value = tokens[colour][i];
  if (!known(value)) return null;
  const bounds = BOUNDS[colour];
  let level = 0;
  while (level < bounds.length && Math.abs(value) >= bounds[level]) level += 1;
  return level;
}

export function legend(colour, about) {
  const swatch = (c, text, scale = colour, fate = null) => h("li", { key: text }, h("span", { class: "tok", "data-c": c, "data-scale": scale, "data-fate": fate, "aria-hidden": "true" }, "\u2002"), " ", text);
  let items;
  if (colour === "version") items = about.versions.map((version) => swatch(version % 8, `version ${version}`));
  else if (colour === "fate") items = about.fates.filter((each) => each.tokens && each.fate !== "context").map((each) => swatch(null, words(each.fate), "fate", each.fate));
  else {
    const bounds = BOUNDS[colour];
    const nats = colour === "logprobs" ? (value) => number(-value) : number;
    items = [...bounds, null].map((bound, c) => swatch(c, c === 0 ? `${colour === "logprobs" ? "above" : "under"} ${nats(bound)}` : colour === "logprobs" ? `${nats(bounds[c - 1])} and below` : `${nats(bounds[c - 1])} and more`));
    if (about.scale[colour] === null) items = [h("li", { key: "none" }, "not known of this trial")];
  }
  return h("ul", { class: "legendlist", "aria-label": "Colours" }, items, h("li", { key: "ctx", class: "quiet" }, "without a box: context, which carries no loss"));
}
