// A trial's files: the patch by file, the grader's and the harness's logs.

import { empty, h, note, section, tag } from "../core/dom.js";
import { whole } from "../core/format.js";
import { apiPlace } from "./trial_turns.js";

const MOST = 1500; // lines of one file's patch that are shown

export async function loadPatch({ about, place, api }) {
  return about.files.patch === null ? null : api.run(`${place}/file/patch`);
}

export function patchOf({ about, shown, place }, ctx) {
  if (shown === null) return empty("There is no patch.", about.trial.state === "running" ? "The trial still runs." : "Its folder is gone, or retention removed it (lego.monitor.keep.patches).");
  if (!shown.size) return empty("The patch is empty.", "The agent ended without having changed a file that counts.");
  const files = byFile(shown.text);
  return [
    h("p", { key: "sum" }, `${files.length} file${files.length === 1 ? "" : "s"}, `, plus(sum(files, "added")), " ", minus(sum(files, "removed")), " lines. ", save(ctx, place, "patch", "Save the patch")),
    shown.left_out ? note("warn", `The patch has ${whole(shown.size)} bytes; ${whole(shown.left_out)} in its middle are left out here.`) : null,
    files.map((file, i) => h("details", { class: "diff", key: `${file.name}-${i}`, open: i < 8 && file.lines.length < 400 },
      h("summary", {}, h("code", {}, file.name), " ", plus(file.added), " ", minus(file.removed), file.note ? tag(file.note) : null),
      h("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": `Patch of ${file.name}` },
        h("pre", { class: "patch" }, file.lines.slice(0, MOST).map((line) => h("span", { class: "line", "data-sign": sign(line) }, line + "\n")))),
      file.lines.length > MOST ? h("p", { class: "quiet" }, `${MOST} of ${whole(file.lines.length)} lines are shown; the saved patch has all.`) : null)),
  ];
}

const plus = (count) => h("span", { class: "plus" }, `+${whole(count)}`);
const minus = (count) => h("span", { class: "minus" }, `−${whole(count)}`);
const sum = (files, name) => files.reduce((total, file) => total + file[name], 0);

function byFile(text) {
  const files = [];
  for (const line of text.replace(/\n$/, "").split("\n")) {
    if (line.startsWith("diff --git ") || !files.length) files.push({ name: line.match(/ b\/(.*)$/)?.[1] ?? "patch", lines: [], added: 0, removed: 0, note: "", body: false });
    const file = files.at(-1);
    file.lines.push(line);
    if (line.startsWith("@@")) file.body = true;
    else if (!file.body && line.startsWith("new file")) file.note = "new";
    else if (!file.body && line.startsWith("deleted file")) file.note = "deleted";
    else if (!file.body && line.startsWith("rename to")) file.note = "renamed";
    else if (line.startsWith("Binary") || line.startsWith("GIT binary")) file.note = "binary";
    else if (file.body && line[0] === "+") file.added += 1;
    else if (file.body && line[0] === "-") file.removed += 1;
  }
  return files;
}

function sign(line) {
  if (line.startsWith("@@")) return "@";
  if (/^(diff |index |\+\+\+ |--- |new file|deleted file|similarity|rename |old mode|new mode)/.test(line)) return "h";
  return line[0] === "+" ? "+" : line[0] === "-" ? "-" : null;
}

const LOGS = {
  grading_log: ["Tests", "What the grader printed: the hidden tests, run on the patch in a fresh sandbox after the agent was gone."],
  harness_log: ["Harness", "What the harness printed."],
};

export async function loadFiles({ about, place, api }) {
  const wanted = Object.keys(LOGS).filter((kind) => about.files[kind] !== null);
  const read = await Promise.all(wanted.map((kind) => api.run(`${place}/file/${kind}`)));
  return Object.fromEntries(wanted.map((kind, i) => [kind, read[i]]));
}

export function filesOf({ shown, place }, ctx) {
  return Object.entries(LOGS).map(([kind, [title, says]]) => {
    const log = shown[kind];
    return section(title, h("p", { class: "quiet" }, says, " ", log?.size ? save(ctx, place, kind, `Save the log, ${whole(log.size)} bytes`) : null),
      !log ? empty("There is no such log.", "The trial still runs, or retention removed it (lego.monitor.keep.logs).")
        : !log.size ? h("p", { class: "quiet" }, "Nothing was printed.")
          : [h("pre", { class: "log", tabindex: "0", "aria-label": title }, log.text), log.left_out ? h("p", { class: "cut" }, `${whole(log.left_out)} bytes are left out here.`) : null, log.end ? h("pre", { class: "log", tabindex: "0", "aria-label": `${title}, the end` }, log.end) : null]);
  });
}

function save(ctx, place, kind, text) {
  return h("a", { href: `${apiPlace(ctx, place)}/file/${kind}/whole`, download: "" }, text);
}
