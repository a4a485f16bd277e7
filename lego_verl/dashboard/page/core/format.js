// Numbers as a person reads them. What is not known is "–", never 0.

const NONE = "–";

export function known(value) {
  return value !== null && value !== undefined && !Number.isNaN(value);
}

// Significant digits where it is no whole number; thousands apart.
export function number(value, digits = 3) {
  if (!known(value)) return NONE;
  if (Number.isInteger(value)) return whole(value);
  const size = Math.abs(value);
  if (size >= 1000) return whole(Math.round(value));
  if (size < 1e-4) return value.toExponential(2);
  return String(Number(value.toPrecision(Math.max(digits, 1))));
}

export function whole(value) {
  return known(value) ? Math.round(value).toLocaleString("en-US").replaceAll(",", "\u202f") : NONE;
}

export function fixed(value, digits) {
  return known(value) ? value.toFixed(digits) : NONE;
}

export function share(value, digits = 1) {
  return known(value) ? `${(100 * value).toFixed(digits)}\u202f%` : NONE;
}

// {value, low, high} as "37.5 % (30.1–45.2)".
export function rate(of, digits = 1) {
  if (!of) return NONE;
  return `${share(of.value, digits)} (${interval(of, digits)})`;
}

export function interval(of, digits = 1) {
  return of ? `${(100 * of.low).toFixed(digits)}–${(100 * of.high).toFixed(digits)}` : NONE;
}

export function tokens(value) {
  if (!known(value)) return NONE;
  if (Math.abs(value) < 10000) return whole(value);
  return value < 1e6
    ? `${(value / 1e3).toFixed(value < 1e5 ? 1 : 0)}\u202fk`
    : `${(value / 1e6).toFixed(value < 1e8 ? 1 : 0)}\u202fM`;
}

export function seconds(value) {
  if (!known(value)) return NONE;
  if (value < 0.95) return `${(1000 * value).toFixed(0)}\u202fms`;
  if (value < 9.95) return `${value.toFixed(1)}\u202fs`;
  if (value < 120) return `${value.toFixed(0)}\u202fs`;
  if (value < 7200) return `${(value / 60).toFixed(value < 600 ? 1 : 0)}\u202fmin`;
  return value < 172800 ? `${(value / 3600).toFixed(1)}\u202fh` : `${(value / 86400).toFixed(1)}\u202fdays`;
}

// A measure by its unit, as behaviour's measures have it: share, count, seconds, tokens.
export function measure(value, unit) {
  return { share, seconds, tokens }[unit]?.(value) ?? number(value);
}

// Seconds since 1970 as local date and time.
export function time(value) {
  if (!known(value)) return NONE;
  const date = new Date(1000 * value);
  const two = (part) => String(part).padStart(2, "0");
  return `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} ${two(date.getHours())}:${two(date.getMinutes())}:${two(date.getSeconds())}`;
}

export function ago(value, now = Date.now() / 1000) {
  return known(value) ? `${seconds(Math.max(now - value, 0))} ago` : NONE;
}

// A name of the project's as words: "turn_limit" -> "turn limit".
export function words(name) {
  return String(name).replaceAll("_", " ");
}
