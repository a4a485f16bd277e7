// Runs before anything is drawn: the chosen theme, else the system's. A plain script, since modules come later.
(function () {
  let chosen = null;
  try {
    chosen = localStorage.getItem("lego-theme");
  } catch {
    /* storage is off: the system's */
  }
  if (chosen === "light" || chosen === "dark") document.documentElement.dataset.theme = chosen;
})();
