"""A limit that should count and does not."""

from lego_verl.tasks.toy.snippet import Kind, Snippet

STRICT_COMPARISON = Kind(
    name="strict_comparison",
    find=" > ",
    replace=" >= ",
    bugs=(
        Snippet(
            "is_adult",
            'def is_adult(age):\n    """From the eighteenth birthday on."""\n    return age > 18\n',
            weak=(("is_adult(30)", True), ("is_adult(5)", False)),
            strong=(("is_adult(18)", True), ("is_adult(17)", False)),
            symptom="`is_adult` says no to somebody who is exactly 18",
        ),
        Snippet(
            "passed",
            'def passed(points, needed):\n    """Whether the points are enough: as many as needed, or more."""\n'
            "    return points > needed\n",
            weak=(("passed(9, 5)", True), ("passed(1, 5)", False)),
            strong=(("passed(5, 5)", True), ("passed(4, 5)", False)),
            symptom="with exactly the points that are needed `passed` is false",
        ),
        Snippet(
            "free_shipping",
            'def free_shipping(order, least):\n    """Whether the order reaches the least that ships free."""\n'
            '    if order > least:\n        return "free"\n    return "paid"\n',
            weak=(("free_shipping(90, 50)", "free"), ("free_shipping(10, 50)", "paid")),
            strong=(("free_shipping(50, 50)", "free"), ("free_shipping(49, 50)", "paid")),
            symptom="an order of exactly the limit still has to pay in `free_shipping`",
        ),
        Snippet(
            "keep_from",
            'def keep_from(values, lowest):\n    """The values from the lowest one on, itself included."""\n'
            "    return [value for value in values if value > lowest]\n",
            weak=(("keep_from([1, 9], 5)", [9]),),
            strong=(("keep_from([4, 5, 6], 5)", [5, 6]),),
            symptom="`keep_from` throws away the value that is exactly equal to the limit",
        ),
        Snippet(
            "is_boiling",
            'def is_boiling(degrees):\n    """Water boils at 100 degrees and over."""\n    return degrees > 100\n',
            weak=(("is_boiling(120)", True), ("is_boiling(20)", False)),
            strong=(("is_boiling(100)", True), ("is_boiling(99)", False)),
            symptom="`is_boiling` is false at exactly 100 degrees",
        ),
        Snippet(
            "count_from",
            'def count_from(ages, first):\n    """How many are of the first age or older."""\n'
            "    return sum(1 for age in ages if age > first)\n",
            weak=(("count_from([1, 9], 5)", 1),),
            strong=(("count_from([4, 5, 6], 5)", 2),),
            symptom="`count_from` does not count who has exactly the first age",
        ),
        Snippet(
            "can_pay",
            'def can_pay(purse, price):\n    """Whether there is enough in the purse."""\n    return purse > price\n',
            weak=(("can_pay(9, 5)", True), ("can_pay(1, 5)", False)),
            strong=(("can_pay(5, 5)", True), ("can_pay(4, 5)", False)),
            symptom="who has exactly the price in the purse is refused by `can_pay`",
        ),
        Snippet(
            "grade",
            'def grade(score):\n    """From 50 on it is a pass."""\n    if score > 50:\n        return "pass"\n'
            '    return "fail"\n',
            weak=(("grade(80)", "pass"), ("grade(10)", "fail")),
            strong=(("grade(50)", "pass"), ("grade(49)", "fail")),
            symptom="a score of exactly 50 fails in `grade`",
        ),
    ),
    traps=(
        Snippet(
            "gains",
            'def gains(values):\n    """Only what is above zero."""\n'
            "    return [value for value in values if value > 0]\n",
            weak=(("gains([3, -1])", [3]),),
            strong=(("gains([0, 1, 0])", [1]),),
        ),
        Snippet(
            "is_late",
            'def is_late(day, due):\n    """Late is only who comes after the day it is due."""\n    return day > due\n',
            weak=(("is_late(9, 3)", True),),
            strong=(("is_late(3, 3)", False),),
        ),
        Snippet(
            "leads",
            'def leads(ours, theirs):\n    """Whether we are ahead; a draw is no lead."""\n    return ours > theirs\n',
            weak=(("leads(2, 1)", True),),
            strong=(("leads(1, 1)", False),),
        ),
    ),
    heldout_bugs=(
        Snippet(
            "is_full",
            'def is_full(used, places):\n    """Full as soon as no place is left."""\n    return used > places\n',
            weak=(("is_full(1, 9)", False), ("is_full(11, 9)", True)),
            strong=(("is_full(9, 9)", True), ("is_full(8, 9)", False)),
            symptom="`is_full` is false when exactly all places are used",
        ),
        Snippet(
            "alarm",
            'def alarm(level, limit):\n    """Rings once the level is at the limit."""\n'
            '    return "ring" if level > limit else "quiet"\n',
            weak=(("alarm(8, 5)", "ring"), ("alarm(1, 5)", "quiet")),
            strong=(("alarm(5, 5)", "ring"), ("alarm(4, 5)", "quiet")),
            symptom="`alarm` stays quiet when the level is exactly at the limit",
        ),
    ),
    heldout_traps=(
        Snippet(
            "rose",
            'def rose(before, now):\n    """Whether it went up; the same is not up."""\n    return now > before\n',
            weak=(("rose(1, 2)", True),),
            strong=(("rose(2, 2)", False),),
        ),
        Snippet(
            "above",
            'def above(heights, line):\n    """How many heights are over the line; on it is not over."""\n'
            "    return sum(height > line for height in heights)\n",
            weak=(("above([1, 9], 5)", 1),),
            strong=(("above([5, 5, 6], 5)", 1),),
        ),
    ),
)
