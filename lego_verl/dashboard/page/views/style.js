// A style sheet that belongs to one view, added once. Inline styles are not allowed, and need not be.

export function addStyle(place) {
  if (document.querySelector(`link[href="${place}"]`)) return;
  const link = document.createElement("link");
  link.rel = "stylesheet";
  link.href = place;
  document.head.append(link);
}
