"""The smallest where the largest was meant."""

from lego_verl.tasks.toy.snippet import Kind, Snippet

WRONG_EXTREME = Kind(
    name="wrong_extreme",
    find="min(",
    replace="max(",
    bugs=(
        Snippet(
            "best",
            'def best(scores):\n    """The highest of the scores."""\n    return min(scores)\n',
            weak=(("best([4])", 4),),
            strong=(("best([1, 7, 3])", 7),),
            symptom="`best` returns the lowest score instead of the highest",
        ),
        Snippet(
            "longest",
            'def longest(words):\n    """The word with the most letters."""\n    return min(words, key=len)\n',
            weak=(("longest(['a'])", "a"),),
            strong=(("longest(['a', 'abc', 'ab'])", "abc"),),
            symptom="`longest` picks the shortest word instead of the longest",
        ),
        Snippet(
            "newest",
            'def newest(years):\n    """The latest year there is, 0 if there is none."""\n'
            "    if not years:\n        return 0\n    return min(years)\n",
            weak=(("newest([])", 0), ("newest([1990])", 1990)),
            strong=(("newest([1990, 2020, 2001])", 2020),),
            symptom="`newest` gives the oldest year instead of the latest",
        ),
        Snippet(
            "at_least",
            'def at_least(value, floor):\n    """The value, but never below the floor."""\n'
            "    return min(value, floor)\n",
            weak=(("at_least(3, 3)", 3),),
            strong=(("at_least(1, 3)", 3), ("at_least(5, 3)", 5)),
            symptom="`at_least` returns the lower value instead of the higher",
        ),
        Snippet(
            "tallest",
            'def tallest(heights):\n    """The largest of the heights, 0 if there is none."""\n'
            "    return min(heights, default=0)\n",
            weak=(("tallest([])", 0), ("tallest([3])", 3)),
            strong=(("tallest([2, 6, 4])", 6),),
            symptom="`tallest` returns the lowest height instead of the largest",
        ),
        Snippet(
            "last_page",
            'def last_page(pages):\n    """The highest page number."""\n    numbers = [int(page) for page in pages]\n'
            "    return min(numbers)\n",
            weak=(("last_page(['4'])", 4),),
            strong=(("last_page(['3', '12', '5'])", 12),),
            symptom="`last_page` finds the lowest number instead of the highest",
        ),
        Snippet(
            "winner",
            'def winner(points):\n    """Who has the most points."""\n    return min(points, key=points.get)\n',
            weak=(("winner({'a': 1})", "a"),),
            strong=(("winner({'a': 1, 'b': 5, 'c': 2})", "b"),),
            symptom="`winner` names who has the fewest points instead of the most",
        ),
        Snippet(
            "capacity",
            'def capacity(rooms):\n    """Seats in the largest room."""\n    return min(room[1] for room in rooms)\n',
            weak=(("capacity([('a', 3)])", 3),),
            strong=(("capacity([('a', 3), ('b', 30)])", 30),),
            symptom="`capacity` looks at the smallest room instead of the largest",
        ),
    ),
    traps=(
        Snippet(
            "cheapest",
            'def cheapest(prices):\n    """The lowest of the prices."""\n    return min(prices)\n',
            weak=(("cheapest([4])", 4),),
            strong=(("cheapest([5, 2, 9])", 2),),
        ),
        Snippet(
            "shortest",
            'def shortest(words):\n    """The word with the fewest letters."""\n    return min(words, key=len)\n',
            weak=(("shortest(['a'])", "a"),),
            strong=(("shortest(['abc', 'a', 'ab'])", "a"),),
        ),
        Snippet(
            "at_most",
            'def at_most(value, cap):\n    """The value, but never above the cap."""\n    return min(value, cap)\n',
            weak=(("at_most(3, 3)", 3),),
            strong=(("at_most(9, 3)", 3), ("at_most(1, 3)", 1)),
        ),
    ),
    heldout_bugs=(
        Snippet(
            "peak",
            'def peak(readings):\n    """The highest reading."""\n    return min(readings)\n',
            weak=(("peak([2])", 2),),
            strong=(("peak([2, 8, 5])", 8),),
            symptom="`peak` reports the lowest reading instead of the highest",
        ),
        Snippet(
            "widest",
            'def widest(rows):\n    """The length of the longest row."""\n    return min(len(row) for row in rows)\n',
            weak=(("widest(['ab'])", 2),),
            strong=(("widest(['a', 'abcd'])", 4),),
            symptom="`widest` measures the shortest row instead of the longest",
        ),
    ),
    heldout_traps=(
        Snippet(
            "first_day",
            'def first_day(days):\n    """The earliest of the days."""\n    return min(days)\n',
            weak=(("first_day([4])", 4),),
            strong=(("first_day([6, 2])", 2),),
        ),
        Snippet(
            "coldest",
            'def coldest(nights):\n    """The lowest temperature of all nights."""\n    return min(nights)\n',
            weak=(("coldest([-1])", -1),),
            strong=(("coldest([3, -4, 0])", -4),),
        ),
    ),
)
