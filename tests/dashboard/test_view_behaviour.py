"""Behaviour: every measure by step, whether it changes, where trials end."""

from __future__ import annotations

from typing import Any

from dashboard_run import STEPS

from lego_verl.monitor.behaviour.measures import MEASURES

BASE = "/api/runs/demo%20run/behaviour"


def get(client: Any, path: str = "") -> Any:
    answer = client.get(BASE + path)
    assert answer.status_code == 200, answer.text
    return answer.json()


def test_every_measure_has_its_words_and_a_value_by_step(client: Any) -> None:
    view = get(client)
    assert [measure["name"] for measure in view["measures"]] == [measure.name for measure in MEASURES]
    assert all(measure["says"] for measure in view["measures"])
    assert [row["step"] for row in view["rows"]] == list(range(1, STEPS + 2))
    assert view["rows"][0]["turns"] == 4
    assert view["rows"][0]["tests"] == 1
    assert view["rows"][-1]["turns"] is None, "of a trial that still runs nothing is counted"


def test_acts_by_kind_are_for_one_tool_call(client: Any) -> None:
    kinds = get(client)["kinds"][0]
    assert (kinds["reads"], kinds["edits"], kinds["tests"]) == (1 / 3, 1 / 3, 1 / 3)
    assert kinds["others"] == 0


def test_it_can_be_of_one_harness_and_of_the_same_tasks(client: Any) -> None:
    assert [row["step"] for row in get(client, "?harness=openhands")["rows"]] == [STEPS]
    same = get(client, "?tasks=cohort&split=heldout")
    assert same["cohort"] == 2
    assert same["thirds"] == [0, STEPS]
    assert [row["step"] for row in same["rows"]] == [0, STEPS]


def test_trends_say_in_words_what_is_too_little_to_tell(client: Any) -> None:
    trends = get(client, "/trends")["trends"]
    assert set(trends) == {measure.name for measure in MEASURES}
    assert trends["turns"]["steps"]["says"].startswith("too little to tell")
    assert trends["turns"]["same_tasks"]["direction"] == "too little to tell"


def test_where_trials_end(client: Any) -> None:
    rows = get(client, "/endings")["rows"]
    assert {row["last_act"] for row in rows if row["step"] == 1 and row["outcome"] == "solved"} == {"text"}
    assert sum(row["trials"] for row in rows if row["step"] == 1) == 9
