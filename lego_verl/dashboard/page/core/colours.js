// Colours that people with any colour vision tell apart (after Okabe and Ito), for light and for dark ground.

const LIGHT = ["#0072b2", "#d55e00", "#007f5f", "#b0528c", "#7a5c00", "#2f8fc4", "#555b66", "#8f4bbf"];
const DARK = ["#56b4e9", "#f0803c", "#2fc79a", "#e08fc0", "#e6c229", "#9ad0f0", "#b4bac4", "#c39bea"];

// [light, dark, dropped]: an outcome is of one colour everywhere.
const OUTCOMES = {
  solved: ["#007f5f", "#2fc79a"],
  unsolved: ["#9aa4b2", "#78828f"],
  turn_limit: ["#e6a700", "#e6c229"],
  token_limit: ["#c98a00", "#c9a227"],
  context_overflow: ["#a06c00", "#a8841c"],
  time_limit: ["#7a5c00", "#8a6d1a"],
  gave_up: ["#b0528c", "#e08fc0"],
  no_patch: ["#8f4bbf", "#c39bea"],
  tampered: ["#111111", "#ffffff"],
  harness_failed: ["#d55e00", "#f0803c", 1],
  sandbox_failed: ["#b3261e", "#ff6b5e", 1],
  sandbox_lost: ["#8c1d18", "#d9534a", 1],
  image_missing: ["#c2554d", "#ff9a90", 1],
  out_of_memory: ["#7a1f4b", "#d06aa0", 1],
  disk_full: ["#5d2a42", "#a85a80", 1],
  policy_failed: ["#0072b2", "#56b4e9", 1],
  capture_incomplete: ["#004c78", "#2f7fb0", 1],
  stale: ["#2f8fc4", "#9ad0f0", 1],
  grader_failed: ["#e0672b", "#ffa366", 1],
  grader_timeout: ["#f0a070", "#ffc9a3", 1],
  small_group: ["#555b66", "#b4bac4", 1],
  running: ["#d3d8e0", "#3c4450"],
  pending: ["#d3d8e0", "#3c4450"],
  trained: ["#007f5f", "#2fc79a"],
  dropped: ["#b3261e", "#ff6b5e", 1],
};

export const OUTCOME_ORDER = Object.keys(OUTCOMES);

export function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

export function palette(index) {
  const colours = isDark() ? DARK : LIGHT;
  return colours[index % colours.length];
}

export function outcomeColour(name) {
  const [light, dark] = OUTCOMES[name] ?? ["#6b7480", "#98a2b0"];
  return isDark() ? dark : light;
}

// Whether training does without it: drawn hatched, so that colour is not all that says so.
export function isDropped(name) {
  return OUTCOMES[name]?.[2] === 1;
}

// A share from 0 (never) to 1 (always), from the colour of a failure to that of a success, light or dark in the middle.
export function shareColour(value) {
  const [low, middle, high] = isDark()
    ? [
        [196, 98, 58],
        [60, 66, 76],
        [47, 167, 199],
      ]
    : [
        [213, 94, 0],
        [238, 238, 232],
        [0, 114, 178],
      ];
  const [from, to, part] = value < 0.5 ? [low, middle, 2 * value] : [middle, high, 2 * value - 1];
  return `rgb(${from.map((each, i) => Math.round(each + (to[i] - each) * part)).join(",")})`;
}

export function token(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
