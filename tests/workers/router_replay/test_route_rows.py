"""Whatever the lengths and the layout, a token's routes go where the token goes."""

from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch", reason="the extra cpu is not installed")

from hypothesis import given, settings  # noqa: E402
from hypothesis import strategies as st  # noqa: E402

from lego_verl.workers.router_replay.rows import (  # noqa: E402
    RoutesError,
    byte_sized,
    extended_rows,
    packed_rows,
    padded_rows,
    positions_in_padded,
    recorded_rows,
    unrecorded,
)

LENGTHS = st.lists(st.integers(1, 9), min_size=1, max_size=5)
DTYPES = st.sampled_from([torch.uint8, torch.int16])


def jagged(rows: list[Any]) -> Any:
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


def numbered(lengths: list[int], dtype: Any) -> list[Any]:
    """Routes (tokens, 2, 2) of which each row says which token of which sequence it is."""
    return [
        torch.tensor([[[sequence, token]] * 2 for token in range(length)], dtype=dtype)
        for sequence, length in enumerate(lengths)
    ]


@given(LENGTHS, DTYPES)
@settings(deadline=None, max_examples=60)
def test_packed_rows_follow_the_tokens(lengths: list[int], dtype: Any) -> None:
    routes, ids = numbered(lengths, dtype), jagged([torch.arange(length) for length in lengths])
    rows = packed_rows(jagged(routes), ids.offsets())
    assert rows.dtype == dtype
    assert torch.equal(rows[:, 0, 1].long(), ids.values())
    if len(set(lengths)) == 1:
        assert torch.equal(rows, packed_rows(torch.stack(routes), ids.offsets())), "verl stacks equal lengths"


@given(LENGTHS, DTYPES, st.integers(0, 3))
@settings(deadline=None, max_examples=60)
def test_padded_rows_stand_where_padded_tokens_do_and_come_back(lengths: list[int], dtype: Any, wider: int) -> None:
    ids, routes = jagged([torch.arange(length) for length in lengths]), numbered(lengths, dtype)
    width, offsets = max(lengths) + wider, ids.offsets()
    packed = packed_rows(jagged(routes), offsets)
    rows = padded_rows(packed, offsets, width)
    tokens = ids.to_padded_tensor(-1, (len(lengths), width)).flatten()
    assert torch.equal(torch.where(tokens >= 0, rows[:, 0, 1].long(), -1), tokens)
    assert (rows[tokens < 0] == unrecorded(dtype)).all()
    assert torch.equal(rows[positions_in_padded(offsets, width)], packed)
    assert torch.equal(recorded_rows(rows, 20)[:, 0], (tokens >= 0) & (rows[:, 0, 0] != rows[:, 0, 1]))


@given(LENGTHS, st.permutations(range(5)), st.integers(1, 4))
@settings(deadline=None, max_examples=60)
def test_micro_batches_of_any_make_up(lengths: list[int], order: list[int], size: int) -> None:
    """Rows of micro-batches, put together again, are those of the batch, as verl's reordering would have it."""
    order = [index for index in order if index < len(lengths)]
    routes = numbered(lengths, torch.int16)
    found: dict[int, Any] = {}
    for start in range(0, len(order), size):
        chosen = order[start : start + size]
        ids = jagged([torch.arange(lengths[index]) for index in chosen])
        rows = packed_rows(jagged([routes[index] for index in chosen]), ids.offsets())
        found |= dict(zip(chosen, rows.split([lengths[index] for index in chosen]), strict=True))
    assert all(torch.equal(found[index], routes[index]) for index in range(len(lengths)))


@given(st.integers(0, 5), DTYPES)
@settings(deadline=None, max_examples=20)
def test_padding_is_marked(padding: int, dtype: Any) -> None:
    rows = torch.tensor([[[0, 1]]], dtype=dtype)
    longer = extended_rows(rows, padding)
    assert torch.equal(longer[:1], rows)
    assert recorded_rows(longer, 8)[:, 0].tolist() == [True] + [False] * padding


def test_what_counts_as_recorded() -> None:
    rows = torch.tensor([[0, 1], [0, 0], [-1, -1], [7, 3], [-1, 2]], dtype=torch.int16)
    assert recorded_rows(rows, 8).tolist() == [True, False, False, True, False]
    assert recorded_rows(torch.tensor([[5], [255]], dtype=torch.uint8), 8).tolist() == [True, False], "one a token"


def test_routes_of_another_model_or_batch_are_refused() -> None:
    with pytest.raises(RoutesError, match="name expert 9, and the model has 8 experts"):
        recorded_rows(torch.tensor([[9, 1]], dtype=torch.uint8), 8)
    with pytest.raises(RoutesError, match=r"sequences of \[3\] tokens have routes of \[2\]"):
        packed_rows(jagged(numbered([2], torch.int16)), torch.tensor([0, 3]))
    with pytest.raises(RoutesError, match="one expert a token cannot mark"):
        recorded_rows(torch.tensor([[9]], dtype=torch.uint8), 256)


def test_256_experts_in_one_byte() -> None:
    """255 is an expert then, and a row of marks is one with the same expert twice."""
    assert byte_sized(255)
    assert not byte_sized(256)
    rows = torch.tensor([[255, 1], [255, 255], [0, 0], [7, 8]], dtype=torch.uint8)
    assert recorded_rows(rows, 256).tolist() == [True, False, False, True]
    assert recorded_rows(rows, 255).tolist() == [False, False, False, True]
