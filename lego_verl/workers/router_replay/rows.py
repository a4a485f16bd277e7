"""Recorded routes: which rows there are, and in what order the routers of a forward pass see them.

Routes have shape (tokens, layers, top_k) by absolute position and decoder layer. A row of a token that no engine
recorded, since it never went through the model (the last sampled one of each sequence, padding), is marked: -1, or
255 where a row is of bytes. A row with the same expert twice counts as not recorded, too: verl pads with zeros
(``AgentLoopOutput.as_dict``, ``build_padding_routed_experts``). So does a row of marks, also where 255 is an expert:
some engines send one byte an index for 256 experts.
"""

from __future__ import annotations

import torch

UNRECORDED = -1
UNRECORDED_BYTE = 255


class RoutesError(ValueError):
    """Recorded routes that do not belong to this model or these sequences."""


def byte_sized(experts: int) -> bool:
    """Whether an expert's index fits into one byte, and 255 is none."""
    return experts < 256


def unrecorded(dtype: torch.dtype) -> int:
    """The mark of a row that was not recorded, in routes of this type."""
    return UNRECORDED_BYTE if dtype == torch.uint8 else UNRECORDED


def packed_rows(routes: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
    """Routes of a micro-batch one sequence after the other: (tokens, layers, top_k).

    Args:
        routes: jagged (sequences, tokens, layers, top_k), or dense where all sequences are of one length.
        offsets: (sequences + 1,) where each sequence of the input begins.

    Raises:
        RoutesError: when a sequence has more or fewer routes than tokens.
    """
    if routes.is_nested:
        lengths, values = routes.offsets().diff(), routes.values()
    else:
        lengths, values = offsets.new_full((routes.shape[0],), routes.shape[1]), routes.flatten(0, 1)
    expected = offsets.diff()
    if not torch.equal(lengths, expected):
        raise RoutesError(f"sequences of {expected.tolist()} tokens have routes of {lengths.tolist()}")
    return values


def padded_rows(rows: torch.Tensor, offsets: torch.Tensor, width: int) -> torch.Tensor:
    """Packed rows as a batch that is padded on the right sees them: (sequences * width, layers, top_k)."""
    lengths = offsets.diff()
    padded = rows.new_full((len(lengths) * width, *rows.shape[1:]), unrecorded(rows.dtype))
    padded[positions_in_padded(offsets, width)] = rows
    return padded


def positions_in_padded(offsets: torch.Tensor, width: int) -> torch.Tensor:
    """(tokens,) where each packed row stands among the rows of a batch padded to ``width``."""
    lengths = offsets.diff()
    sequence = torch.repeat_interleave(torch.arange(len(lengths), device=offsets.device), lengths)
    return torch.arange(int(offsets[-1]), device=offsets.device) - offsets[sequence] + sequence * width


def extended_rows(rows: torch.Tensor, padding: int) -> torch.Tensor:
    """Packed rows with ``padding`` unrecorded ones after them."""
    if not padding:
        return rows
    return torch.cat([rows, rows.new_full((padding, *rows.shape[1:]), unrecorded(rows.dtype))])


def recorded_rows(rows: torch.Tensor, experts: int) -> torch.Tensor:
    """(...) bool of rows (..., top_k): which were recorded.

    Raises:
        RoutesError: when a row names an expert that the model does not have, or none of the marks would be seen.
    """
    known = torch.ones_like(rows[..., 0], dtype=torch.bool)
    if rows.dtype != torch.uint8 or byte_sized(experts):
        known = (rows != unrecorded(rows.dtype)).all(-1)
    elif rows.shape[-1] == 1:
        raise RoutesError(f"routes of one byte and one expert a token cannot mark a row among {experts} experts")
    wrong = known & ((rows < 0) | (rows > experts - 1)).any(-1)  # 256 is 0 in a byte
    if bool(wrong.any()):
        raise RoutesError(f"routes name expert {int(rows[wrong].max())}, and the model has {experts} experts")
    ordered = rows.sort(-1).values
    return known & (ordered[..., 1:] != ordered[..., :-1]).all(-1)
