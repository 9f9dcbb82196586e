"""LETOR text by its definition, line by line, in plain Python: what the fast reader must equal."""

from __future__ import annotations

import re

import numpy as np

from rankgrove.data import letor_reader

BLANKS = re.compile(rb"[ \t]*")
TOKEN = re.compile(rb"[^ \t\r\n#]*")
NUMBER = re.compile(rb"[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?")
MISSING = re.compile(rb"[+-]?nan|null|na", re.IGNORECASE)
INFINITE = re.compile(rb"[+-]?(inf|infinity)", re.IGNORECASE)
FEATURE = re.compile(rb"([0-9]+):(.*)", re.DOTALL)
INT64 = range(-(2**63), 2**63)


class RefusedError(Exception):
    """The text breaks a rule, at (line, column), or as a whole: None."""

    def __init__(self, place=None):
        super().__init__(place)
        self.place = place


class NaiveParser:
    def __init__(self, *, group=None, index_base="auto", absent="zero", n_features=None,
                 document_ids=False, split_queries="error"):  # fmt: skip
        self.group = group
        self.index_base = index_base
        self.absent = 0.0 if absent == "zero" else np.nan
        self.n_features = n_features
        self.document_ids = document_ids
        self.split_queries = split_queries
        self.saw_zero = False
        self.largest = -1
        self.rows = []

    def parse(self, text):
        """As (features, labels, query ids, query sizes, comments or None)."""
        lines = text.removeprefix(b"\xef\xbb\xbf").split(b"\n")
        for self.line, line in enumerate(lines, start=1):
            self.parse_line(line.removesuffix(b"\r"))
        if not self.rows:
            raise RefusedError
        return self.assemble()

    def refuse(self, at):
        raise RefusedError((self.line, at + 1))

    def parse_line(self, line):
        at = BLANKS.match(line).end()
        if at == len(line) or line[at : at + 1] == b"#":
            return
        if line[at : at + 1] == b"\r":
            self.refuse(at)
        token = TOKEN.match(line, at).group()
        if not NUMBER.fullmatch(token) or np.isinf(to_float32(token)):
            self.refuse(at)
        label = to_float32(token)
        at = BLANKS.match(line, at + len(token)).end()
        token = TOKEN.match(line, at).group()
        qid = None
        if token.startswith(b"qid:") != (self.group is None) or token == b"qid:":
            self.refuse(at)
        if self.group is None:
            try:
                qid = (token[4:], token[4:].decode())
            except UnicodeDecodeError as error:
                self.refuse(at + 4 + error.start)
            at += len(token)
        features = {}
        while True:
            at = BLANKS.match(line, at).end()
            token = TOKEN.match(line, at).group()
            if not token:
                break
            self.parse_feature(token, at, features)
            at += len(token)
        comment = ""
        if line[at : at + 1] == b"#":
            try:
                comment = line[at + 1 :].decode().strip(" \t\r") if self.document_ids else ""
            except UnicodeDecodeError as error:
                self.refuse(at + 1 + error.start)
        elif at < len(line):
            self.refuse(at)
        self.rows.append((label, qid, features, comment))

    def parse_feature(self, token, at, features):
        match = FEATURE.fullmatch(token)
        if not match:
            self.refuse(at)
        # int() refuses more than 4300 digits; zeros in front are none of them.
        index = int(match[1].lstrip(b"0")[:30] or b"0")
        if self.n_features is None:
            highest = letor_reader.LARGEST_INDEX
        elif self.index_base == 0 or self.saw_zero:
            highest = self.n_features - 1
        else:
            highest = self.n_features
        if index > highest or (index == 0 and self.index_base == 1) or index in features:
            self.refuse(at)
        if index == 0:
            if self.n_features is not None and self.largest >= self.n_features:
                self.refuse(at)
            self.saw_zero = self.index_base == "auto" or self.saw_zero
        value = match[2]
        if MISSING.fullmatch(value):
            features[index] = np.float32(np.nan)
        elif INFINITE.fullmatch(value):
            features[index] = np.float32(float(value))
        elif NUMBER.fullmatch(value) and not np.isinf(to_float32(value)):
            features[index] = to_float32(value)
        else:
            self.refuse(at + len(match[1]) + 1)
        self.largest = max(self.largest, index)

    def assemble(self):
        base = self.index_base
        if base == "auto":
            base = 0 if self.saw_zero else 1
        width = self.n_features
        if width is None:
            width = max(max(row[2], default=base - 1) for row in self.rows) - base + 1
        matrix = np.full((len(self.rows), width), self.absent, dtype=np.float32)
        for number, row in enumerate(self.rows):
            for index, value in row[2].items():
                matrix[number, index - base] = value
        labels = [row[0] for row in self.rows]
        comments = [row[3] for row in self.rows] if self.document_ids else None
        return self.group_rows(matrix, np.array(labels, dtype=np.float32), comments)

    def group_rows(self, matrix, labels, comments):
        """Bring the rows of a query together."""
        if self.group is not None:
            if sum(self.group) != len(labels):
                raise RefusedError
            return matrix, labels, list(range(len(self.group))), list(self.group), comments
        ids = [row[1][1] for row in self.rows]
        if all(re.fullmatch(r"-?[0-9]+", id_, re.ASCII) for id_ in ids):
            try:
                numbers = [int(id_) for id_ in ids]
            except ValueError:
                numbers = [2**63]
            if all(number in INT64 for number in numbers):
                ids = numbers
        queries = list(dict.fromkeys(ids))
        rank = {id_: number for number, id_ in enumerate(queries)}
        order = sorted(range(len(ids)), key=lambda row: rank[ids[row]])
        if order != list(range(len(ids))) and self.split_queries == "error":
            raise RefusedError
        sizes = [ids.count(id_) for id_ in queries]
        if comments is not None:
            comments = [comments[row] for row in order]
        return matrix[order], labels[order], queries, sizes, comments


def to_float32(token):
    with np.errstate(over="ignore"):
        return np.float32(float(token))


def assert_same(data, expected):
    """A Dataset and what the naive parser gives, bit for bit."""
    matrix, labels, ids, sizes, comments = expected
    assert data.features.shape == matrix.shape
    assert np.array_equal(np.asarray(data.features).view(np.uint32), matrix.view(np.uint32))
    assert np.array_equal(data.labels.view(np.uint32), labels.view(np.uint32))
    assert data.query_ids.tolist() == ids
    assert data.query_ids.dtype == (np.int64 if isinstance(ids[0], int) else object)
    assert data.group.tolist() == sizes
    if comments is None:
        assert data.document_ids is None
    else:
        assert data.document_ids.tolist() == comments
