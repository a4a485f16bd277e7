"""Which runs a dashboard shows, each by a name that goes into an address."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from lego_verl.monitor.run_folder import RunFolder
from lego_verl.proof.read import NoRun, find_run, is_trial


class Runs:
    """The runs of some folders. What appears under a folder of runs later is found, too.

    Args:
        given: folders of runs, folders that hold runs, or names under ``runs/``; none: all under ``runs/``.

    Raises:
        NoRun: for one that is none of these; one line.
    """

    def __init__(self, given: Iterable[str | Path] = ()) -> None:
        self._alone: list[Path] = []
        self._roots: list[Path] = []
        for each in given:
            if _holds_runs(Path(each)):
                self._roots.append(Path(each))
                continue
            folder = find_run(str(each))
            if is_trial(folder):
                raise NoRun(f"{each} is a trial; a dashboard shows runs, and a trial in its run")
            self._alone.append(folder)
        if not self._alone and not self._roots:
            self._roots.append(Path("runs"))
        self._by_name: dict[str, RunFolder] = {}
        self.all()

    def all(self) -> dict[str, RunFolder]:
        """Every run by its name, the newest first. A name that comes twice gets a number."""
        folders = [*self._alone, *(folder for root in self._roots for folder in _runs_in(root))]
        known = {run.path: name for name, run in self._by_name.items()}
        found: dict[str, RunFolder] = {}
        for folder in folders:
            path = folder.resolve()
            if any(run.path == path for run in found.values()):
                continue
            name, number = known.get(path, path.name), 2
            while name in found or (path not in known and name in self._by_name):
                name, number = f"{path.name}-{number}", number + 1
            found[name] = RunFolder(path)
        self._by_name = dict(sorted(found.items(), key=lambda each: -_changed(each[1])))
        return self._by_name

    def find(self, name: str) -> RunFolder | None:
        """The run of a name: only what was found has one, so that no name leads to another folder."""
        return self._by_name.get(name) or self.all().get(name)


def _runs_in(root: Path) -> list[Path]:
    if not root.is_dir():
        return []
    return sorted(folder for folder in root.iterdir() if RunFolder(folder).trials.is_dir())


def _holds_runs(folder: Path) -> bool:
    return folder.is_dir() and not RunFolder(folder).trials.is_dir() and bool(_runs_in(folder))


def _changed(run: RunFolder) -> float:
    try:
        return max(path.stat().st_mtime for path in (run.events, run.store, run.path) if path.exists())
    except (OSError, ValueError):
        return 0.0
