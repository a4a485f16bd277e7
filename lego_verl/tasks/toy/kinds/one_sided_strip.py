"""Text that is cleaned at its beginning only."""

from lego_verl.tasks.toy.snippet import Kind, Snippet

ONE_SIDED_STRIP = Kind(
    name="one_sided_strip",
    find="lstrip(",
    replace="strip(",
    bugs=(
        Snippet(
            "clean_name",
            'def clean_name(text):\n    """The name without blanks around it, with capitals."""\n'
            "    return text.lstrip().title()\n",
            weak=(("clean_name('  ada')", "Ada"),),
            strong=(("clean_name(' ada ')", "Ada"), ("clean_name('bo  ')", "Bo")),
            symptom="`clean_name` leaves the blanks at the end of a name",
        ),
        Snippet(
            "read_key",
            'def read_key(line):\n    """What stands before the equals sign, without blanks around it."""\n'
            '    return line.split("=")[0].lstrip()\n',
            weak=(("read_key(' a=1')", "a"),),
            strong=(("read_key(' a = 1')", "a"),),
            symptom="keys from `read_key` come with blanks at the end of them",
        ),
        Snippet(
            "fields",
            'def fields(line):\n    """The parts between commas, without blanks around them."""\n'
            '    return [part.lstrip() for part in line.split(",")]\n',
            weak=(("fields('a, b')", ["a", "b"]),),
            strong=(("fields('a , b ')", ["a", "b"]),),
            symptom="blanks stay at the end of the parts that `fields` returns",
        ),
        Snippet(
            "unquote",
            'def unquote(text):\n    """The text without the quotes around it."""\n    return text.lstrip("\'")\n',
            weak=(('unquote("\'a")', "a"),),
            strong=(("unquote(\"'a'\")", "a"),),
            symptom="`unquote` leaves the quote at the end of the text",
        ),
        Snippet(
            "answer",
            'def answer(line):\n    """What was typed, without blanks around it, in small letters."""\n'
            "    return line.lstrip().lower()\n",
            weak=(("answer(' Yes')", "yes"),),
            strong=(("answer(' Yes ')", "yes"), ("answer('NO  ')", "no")),
            symptom="`answer` does not remove the blanks at the end of the line",
        ),
        Snippet(
            "undash",
            'def undash(word):\n    """The word without the dashes around it."""\n    return word.lstrip("-")\n',
            weak=(("undash('--a')", "a"),),
            strong=(("undash('-a-b-')", "a-b"),),
            symptom="`undash` forgets the dash at the end of a word",
        ),
        Snippet(
            "tags",
            'def tags(text):\n    """The tags between semicolons, without blanks around them."""\n    found = []\n'
            '    for tag in text.split(";"):\n        found.append(tag.lstrip())\n    return found\n',
            weak=(("tags('a; b')", ["a", "b"]),),
            strong=(("tags('a ; b ')", ["a", "b"]),),
            symptom="`tags` gives tags with blanks at the end",
        ),
        Snippet(
            "sentence",
            'def sentence(text):\n    """The text without blanks around it, and a full stop."""\n'
            '    return text.lstrip() + "."\n',
            weak=(("sentence(' a')", "a."),),
            strong=(("sentence(' a ')", "a."), ("sentence('b  ')", "b.")),
            symptom="`sentence` keeps blanks at the end of the text before the full stop",
        ),
    ),
    traps=(
        Snippet(
            "unindent",
            'def unindent(line):\n    """The line without its indentation; its end stays as it is."""\n'
            "    return line.lstrip()\n",
            weak=(("unindent('  a')", "a"),),
            strong=(("unindent('  a\\n')", "a\n"),),
        ),
        Snippet(
            "drop_zeros",
            'def drop_zeros(code):\n    """The code without the zeros in front of it."""\n'
            '    return code.lstrip("0")\n',
            weak=(("drop_zeros('007')", "7"),),
            strong=(("drop_zeros('0070')", "70"),),
        ),
        Snippet(
            "comment",
            'def comment(line):\n    """What stands after the hash signs in front."""\n    return line.lstrip("#")\n',
            weak=(("comment('##a')", "a"),),
            strong=(("comment('#c#')", "c#"),),
        ),
    ),
    heldout_bugs=(
        Snippet(
            "trim_rows",
            'def trim_rows(rows):\n    """Every row without blanks around it."""\n'
            "    return [row.lstrip() for row in rows]\n",
            weak=(("trim_rows([' a'])", ["a"]),),
            strong=(("trim_rows([' a ', 'b '])", ["a", "b"]),),
            symptom="`trim_rows` leaves blanks at the end of the rows",
        ),
        Snippet(
            "bare",
            'def bare(path):\n    """The path without the slashes around it."""\n    return path.lstrip("/")\n',
            weak=(("bare('/a')", "a"),),
            strong=(("bare('/a/b/')", "a/b"),),
            symptom="the slash at the end stays on in what `bare` returns",
        ),
    ),
    heldout_traps=(
        Snippet(
            "flush_left",
            'def flush_left(text):\n    """The text moved to the left; blanks at its end stay."""\n'
            "    return text.lstrip()\n",
            weak=(("flush_left(' a')", "a"),),
            strong=(("flush_left(' a ')", "a "),),
        ),
        Snippet(
            "without_at",
            'def without_at(name):\n    """The name without the at sign in front of it."""\n'
            '    return name.lstrip("@")\n',
            weak=(("without_at('@a')", "a"),),
            strong=(("without_at('@a@')", "a@"),),
        ),
    ),
)
