"""How the people of toy repositories report what is wrong, and what their packages and modules are called."""

from __future__ import annotations

MODULES = ("labels", "records", "report", "tools")
"""The modules of every repository. A name says nothing about the kind of bug."""

TRAIN_PACKAGES = (
    "orchard", "tramline", "ledger", "kiln", "harbour", "lantern", "bakery", "meadow",
    "granary", "foundry", "ferry", "quarry", "sawmill", "vineyard", "pottery", "brewery",
    "smithy", "nursery", "cannery", "hatchery", "library", "refinery", "shipyard", "theatre",
    "museum", "aquarium", "bindery", "chandlery", "creamery", "distillery", "farmstead", "glassworks",
)  # fmt: skip
HELDOUT_PACKAGES = ("observatory", "tannery", "lighthouse", "dairy", "apiary", "printshop", "greenhouse", "cooperage")

TRAIN_REPORTS = (
    "In `{module}.py`, {symptom}.",
    "{Symptom}. The function is in `{module}.py`.",
    "Since the last release {symptom}. I found it in `{module}.py` of {package}.",
    "Bug in {package}: {symptom}.\n\nPlease look at `{module}.py`.",
    "{Symptom}, which is wrong. The code for it is in src/{package}/{module}.py.",
    "A user of {package} writes that {symptom}. It comes from `{module}.py`.",
)
HELDOUT_REPORTS = (
    "Hello, {symptom}. It must be somewhere in `{module}.py`.",
    "{Symptom}. Can you repair src/{package}/{module}.py?",
    "Our tests of {package} missed this: {symptom} (`{module}.py`).",
    "While I worked on `{module}.py` I saw that {symptom}.",
)


def write_report(template: str, *, symptom: str, module: str, package: str) -> str:
    """The instruction of a task."""
    # a symptom that opens with code in backquotes is left as it is
    opened = symptom if symptom.startswith("`") else symptom[0].upper() + symptom[1:]
    return template.format(symptom=symptom, Symptom=opened, module=module, package=package) + "\n"
