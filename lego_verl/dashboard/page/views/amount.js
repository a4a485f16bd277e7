// A measure's value, or a difference of two, by its unit: of either sign, and small numbers of tokens not rounded.

import { known, measure, number } from "../core/format.js";

export function amount(value, unit) {
  if (!known(value)) return "–";
  const size = Math.abs(value);
  const text = unit === "tokens" && size < 1000 ? number(size) : measure(size, unit);
  return value < 0 && size > 1e-12 ? `−${text}` : text;
}

// With its sign.
export function change(value, unit) {
  return value > 0 ? `+${amount(value, unit)}` : amount(value, unit);
}
