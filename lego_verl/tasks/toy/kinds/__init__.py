"""One file a kind of bug."""

from lego_verl.tasks.toy.kinds.one_sided_strip import ONE_SIDED_STRIP
from lego_verl.tasks.toy.kinds.short_range import SHORT_RANGE
from lego_verl.tasks.toy.kinds.strict_comparison import STRICT_COMPARISON
from lego_verl.tasks.toy.kinds.wrong_extreme import WRONG_EXTREME

KINDS = (SHORT_RANGE, STRICT_COMPARISON, ONE_SIDED_STRIP, WRONG_EXTREME)

__all__ = ["KINDS"]
