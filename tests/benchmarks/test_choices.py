"""The first filter of options: that its lines are there, and what its bases are."""

from benchmarks.choices import GROUPS, measure


def test_each_variant_stands_beside_its_base_with_a_difference():
    rows = measure("leaves", 12, 1, 20)
    assert [row[2] for row in rows] == ["base", *GROUPS["leaves"][2]]
    assert rows[0][4] == ""
    assert all("±" in row[4] for row in rows[1:])
