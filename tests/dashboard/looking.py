"""A page of the dashboard in Chromium, as a person looks at it."""

from __future__ import annotations

from typing import Any

from axe_playwright_python.sync_playwright import Axe

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
READY = "main[data-ready]:not([data-busy])"
_SETTLED = """() => {
  const main = document.getElementById("main");
  return !("busy" in main.dataset) && getComputedStyle(main).opacity === "1";
}"""


class Looked:
    """A page, and what its console said that it should not."""

    def __init__(self, page: Any, url: str) -> None:
        self.page, self.url = page, url
        self.complaints: list[str] = []
        page.on("console", lambda said: self._heard(said.type, said.text))
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("dialog", lambda dialog: (self.complaints.append(f"dialog: {dialog.message}"), dialog.dismiss()))

    def _heard(self, kind: str, text: str) -> None:
        if kind in ("error", "warning"):
            self.complaints.append(f"{kind}: {text}")

    def settle(self) -> None:
        """Until it is of its full colour: what is fetched again is pale meanwhile, and for a moment after."""
        self.page.wait_for_function(_SETTLED)

    def overflow(self) -> int:
        return int(self.page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth"))

    def axe(self, *rules: str) -> list[str]:
        """What keeps people from using it, by these rules or by all; the serious and the critical."""
        self.settle()
        found = Axe().run(self.page, options={"runOnly": list(rules)} if rules else None).response["violations"]
        serious = [each for each in found if each["impact"] in ("serious", "critical")]
        return [f"{each['id']}: {node['html'][:160]}" for each in serious for node in each["nodes"]]
