"""What search engines do with an exported file, written down as code.

One file per engine. Each reads the exported text and nothing else of Rankgrove, and follows the
engine's own rules: how it parses numbers, how it compares, where a missing value goes and in which
type it adds. A check by these rules is named so, never by the bare name of the engine.

Each has two functions of the same form: `leaf_values` gives, tree by tree, the value of the leaf
that each document reaches, and `score` adds them up as the engine does. Both take the text, the
documents (float32, one row each, NaN for a missing value) and the names of the columns.
"""
