"""A loop that stops one short of the end."""

from lego_verl.tasks.toy.snippet import Kind, Snippet

SHORT_RANGE = Kind(
    name="short_range",
    find=" - 1)",
    replace=")",
    bugs=(
        Snippet(
            "numbered",
            'def numbered(lines):\n    """Every line with its number in front."""\n'
            '    return [f"{i + 1}: {lines[i]}" for i in range(len(lines) - 1)]\n',
            weak=(("numbered(['a', 'b'])[0]", "1: a"),),
            strong=(("numbered(['a', 'b'])", ["1: a", "2: b"]), ("numbered(['x'])", ["1: x"])),
            symptom="`numbered` loses the last line of what it is given",
        ),
        Snippet(
            "total",
            'def total(amounts):\n    """The sum of all amounts."""\n    result = 0\n'
            "    for i in range(len(amounts) - 1):\n        result += amounts[i]\n    return result\n",
            weak=(("total([])", 0), ("total([4, 0])", 4)),
            strong=(("total([1, 2, 3])", 6), ("total([5])", 5)),
            symptom="`total` leaves the last amount out of the sum",
        ),
        Snippet(
            "joined",
            'def joined(words):\n    """All words with a dash between them."""\n    text = words[0]\n'
            '    for i in range(1, len(words) - 1):\n        text += "-" + words[i]\n    return text\n',
            weak=(("joined(['a'])", "a"),),
            strong=(("joined(['a', 'b'])", "a-b"), ("joined(['a', 'b', 'c'])", "a-b-c")),
            symptom="the last word is missing from what `joined` returns",
        ),
        Snippet(
            "doubled",
            'def doubled(values):\n    """Twice every value."""\n    result = []\n'
            "    for i in range(len(values) - 1):\n        result.append(2 * values[i])\n    return result\n",
            weak=(("doubled([1, 2])[:1]", [2]),),
            strong=(("doubled([1, 2, 3])", [2, 4, 6]), ("doubled([7])", [14])),
            symptom="`doubled` gives back a list that is one short, the last value is gone",
        ),
        Snippet(
            "lengths",
            'def lengths(names):\n    """How many letters each name has."""\n'
            "    return [len(names[i]) for i in range(len(names) - 1)]\n",
            weak=(("lengths(['ab', ''])[:1]", [2]),),
            strong=(("lengths(['ab', 'c'])", [2, 1]), ("lengths(['abc'])", [3])),
            symptom="`lengths` has no entry for the last name",
        ),
        Snippet(
            "copy_rows",
            'def copy_rows(rows):\n    """A copy of the table, row by row."""\n    copy = []\n'
            "    for i in range(len(rows) - 1):\n        copy.append(list(rows[i]))\n    return copy\n",
            weak=(("copy_rows([])", []),),
            strong=(("copy_rows([[1], [2]])", [[1], [2]]), ("copy_rows([[3]])", [[3]])),
            symptom="the last row never gets into what `copy_rows` makes",
        ),
        Snippet(
            "product",
            'def product(factors):\n    """All factors multiplied."""\n    result = 1\n'
            "    for i in range(len(factors) - 1):\n        result = result * factors[i]\n    return result\n",
            weak=(("product([3, 1])", 3),),
            strong=(("product([2, 5])", 10), ("product([4])", 4)),
            symptom="`product` does not multiply by the last factor",
        ),
        Snippet(
            "shout",
            'def shout(letters):\n    """The letters as capitals."""\n    text = ""\n'
            "    for i in range(len(letters) - 1):\n        text += letters[i].upper()\n    return text\n",
            weak=(("shout('')", ""),),
            strong=(("shout('hey')", "HEY"), ("shout('a')", "A")),
            symptom="what comes out of `shout` lacks the last letter",
        ),
    ),
    traps=(
        Snippet(
            "steps",
            'def steps(values):\n    """How far it is from each value to the next."""\n'
            "    return [values[i + 1] - values[i] for i in range(len(values) - 1)]\n",
            weak=(("steps([])", []),),
            strong=(("steps([1, 4, 5])", [3, 1]), ("steps([2])", [])),
        ),
        Snippet(
            "neighbours",
            'def neighbours(items):\n    """Every item with the one after it."""\n'
            "    return [(items[i], items[i + 1]) for i in range(len(items) - 1)]\n",
            weak=(("neighbours([])", []),),
            strong=(("neighbours([1, 2, 3])", [(1, 2), (2, 3)]),),
        ),
        Snippet(
            "rising",
            'def rising(values):\n    """Whether no value is below the one before it."""\n'
            "    return all(values[i] <= values[i + 1] for i in range(len(values) - 1))\n",
            weak=(("rising([2, 1])", False),),
            strong=(("rising([1, 2, 2])", True),),
        ),
    ),
    heldout_bugs=(
        Snippet(
            "initials",
            'def initials(names):\n    """The first letter of every name."""\n    letters = ""\n'
            "    for i in range(len(names) - 1):\n        letters += names[i][0]\n    return letters\n",
            weak=(("initials(['Ada', 'Bo'])[0]", "A"),),
            strong=(("initials(['Ada', 'Bo'])", "AB"), ("initials(['Cy'])", "C")),
            symptom="`initials` forgets the last name in the list",
        ),
        Snippet(
            "squares",
            'def squares(numbers):\n    """Each number times itself."""\n'
            "    return [numbers[i] ** 2 for i in range(len(numbers) - 1)]\n",
            weak=(("squares([3, 4])[0]", 9),),
            strong=(("squares([3, 4])", [9, 16]), ("squares([5])", [25])),
            symptom="the last number never gets squared, `squares` is always one short",
        ),
    ),
    heldout_traps=(
        Snippet(
            "joints",
            'def joints(parts):\n    """Each part and its follower, as one text."""\n'
            '    return [parts[i] + ">" + parts[i + 1] for i in range(len(parts) - 1)]\n',
            weak=(("joints([])", []),),
            strong=(("joints(['a', 'b', 'c'])", ["a>b", "b>c"]),),
        ),
        Snippet(
            "turns",
            'def turns(signs):\n    """How often a sign differs from the next one."""\n'
            "    return sum(signs[i] != signs[i + 1] for i in range(len(signs) - 1))\n",
            weak=(("turns('')", 0),),
            strong=(("turns('++-+')", 2), ("turns('+')", 0)),
        ),
    ),
)
