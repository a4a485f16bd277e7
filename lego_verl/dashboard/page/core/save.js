// Files that a person takes along: CSV of a table or a chart, always of the JSON that is shown.

// columns: [{title, unit}] ; rows: lists of values.
export function csv(columns, rows) {
  const line = (values) => values.map(cell).join(",");
  const heads = columns.map((column) => (column.unit ? `${column.title} (${column.unit})` : column.title));
  return [line(heads), ...rows.map(line)].join("\r\n") + "\r\n";
}

function cell(value) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" || typeof value === "boolean") return String(value);
  // A text that a spreadsheet would take for a formula is marked as a text.
  const text = String(value).replace(/^([=+\-@\t\r])/, "'$1");
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}

export function saveText(name, text, type = "text/csv;charset=utf-8") {
  const url = URL.createObjectURL(new Blob([text], { type }));
  const anchor = document.createElement("a");
  anchor.href = url;
  anchor.download = fileName(name);
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(url), 10000);
}

export function fileName(name) {
  return name.replace(/[^\w.-]+/g, "_").slice(0, 120);
}
