// Solve rates as lines, in percent, with their intervals.

const SPLITS = { train: "training", heldout: "held-out" };

// Of `api/…/learning`. {smooth: the pooled rate, and each step's own thin behind it; by: rows of one harness each; run:
// a name before each line; splits}
export function solveRateSeries(
  learning,
  { smooth = false, raw = true, byHarness = false, run = "", splits = ["train", "heldout"], band = true } = {},
) {
  const made = [];
  for (const split of splits) {
    for (const [harness, rows] of parted(learning[split] ?? [], byHarness)) {
      const graded = rows.filter((row) => row.solve_rate);
      if (!graded.length) continue;
      const name = [run, SPLITS[split], harness].filter(Boolean).join(", ");
      const smoothed = smooth && split === "train";
      if (smoothed && raw) made.push({ ...line(graded, "solve_rate"), name, quiet: true, dash: dash(split) });
      const chosen = line(graded, smoothed ? "smoothed" : "solve_rate");
      made.push({
        ...chosen,
        name,
        dash: dash(split),
        text: graded.map((row) => told(name, row, smoothed ? "smoothed" : "solve_rate")),
        ...(band ? {} : { low: undefined, high: undefined }),
      });
    }
  }
  return made;
}

function parted(rows, byHarness) {
  if (!byHarness) return [["", rows]];
  const parts = new Map();
  for (const row of rows) parts.set(row.harness, [...(parts.get(row.harness) ?? []), row]);
  return [...parts];
}

function line(rows, which) {
  const of = (part) => rows.map((row) => 100 * row[which][part]);
  return {
    x: rows.map((row) => row.step),
    y: of("value"),
    ...(which === "solve_rate" && rows.some((row) => row.smoothed.graded !== row.solve_rate.graded)
      ? {}
      : { low: of("low"), high: of("high") }),
  };
}

function told(name, row, which) {
  const { value, low, high, solved, graded } = row[which];
  return `${name.replaceAll("<", "‹")}: ${(100 * value).toFixed(1)} % (${(100 * low).toFixed(1)}–${(100 * high).toFixed(1)}), ${solved} of ${graded}`;
}

function dash(split) {
  return split === "heldout" ? "dot" : undefined;
}
