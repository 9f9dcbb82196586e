"""`rankgrove report`: one page that shows which queries changed, what moved in them, and why.

`rankgrove.make_report` and `rankgrove.Report` are the public names; inside of this package the
function is `report`, too: `from rankgrove.report import report`.
"""

from rankgrove.report.build import Candidate, Report, make_report

report = make_report

__all__ = ["Candidate", "Report", "make_report", "report"]
