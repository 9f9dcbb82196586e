"""A small LETOR file and scores for it."""

LETOR = """\
2 qid:1 1:3 2:0.5 # a
0 qid:1 1:1 2:0.25 # b
1 qid:1 1:2 2:0.75 # c
0 qid:2 1:5 2:0.5 # d
1 qid:2 1:4 2:0.125 # e
0 qid:3 1:1 2:1 # f
0 qid:3 1:2 2:1 # g
"""

# The first feature as the score: query 1 is perfect, query 2 upside down, query 3 empty.
SCORES = "3\n1\n2\n5\n4\n1\n2\n"
