// What is slow comes after the rest.

import { h } from "./dom.js";
import { state } from "./state.js";

// `made(data)` when `fetch()` has given the data, a line that says so until then. It is fetched again when the view is,
// and what was there stays until the new is. `key`: what it depends on ("changes", `curves ${names}`).
export function later(ctx, key, fetch, made) {
  const { slow } = state;
  const entry = slow.get(key) ?? { turn: 0 };
  slow.set(key, entry);
  if (entry.turn !== state.turn && ctx.api) {
    entry.turn = state.turn;
    fetch()
      .then(
        (data) => Object.assign(entry, { data, error: null }),
        (error) => {
          if (error.name !== "AbortError") entry.error = error;
        },
      )
      .finally(() => {
        if (state.slow === slow) state.again();
      });
  }
  if (entry.data !== undefined) return made(entry.data);
  return entry.error ? state.problem(entry.error) : h("p", { class: "quiet", key }, "Working it out…");
}
