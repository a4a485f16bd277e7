"""Functions that stand beside the others, so that a module is more than its one interesting line."""

from lego_verl.tasks.toy.snippet import Snippet

FILLERS = (
    Snippet(
        "greeting",
        'def greeting(name):\n    """A line to begin a letter with."""\n    return f"Dear {name},"\n',
        weak=(("greeting('Ada')", "Dear Ada,"),),
    ),
    Snippet(
        "flat",
        'def flat(rows):\n    """All cells, row by row."""\n    return [cell for row in rows for cell in row]\n',
        weak=(("flat([[1], [2, 3]])", [1, 2, 3]),),
    ),
    Snippet(
        "count_by",
        'def count_by(items):\n    """How often each item occurs."""\n    counts = {}\n    for item in items:\n'
        "        counts[item] = counts.get(item, 0) + 1\n    return counts\n",
        weak=(("count_by('aba')", {"a": 2, "b": 1}),),
    ),
    Snippet(
        "percent",
        'def percent(part, whole):\n    """The part in percent of the whole."""\n    return 100 * part / whole\n',
        weak=(("percent(1, 4)", 25.0),),
    ),
    Snippet(
        "swap",
        'def swap(pair):\n    """The pair the other way round."""\n    left, right = pair\n    return right, left\n',
        weak=(("swap((1, 2))", (2, 1)),),
    ),
    Snippet(
        "slug",
        'def slug(title):\n    """The title as it stands in an address."""\n'
        '    return title.lower().replace(" ", "-")\n',
        weak=(("slug('A b')", "a-b"),),
    ),
)
