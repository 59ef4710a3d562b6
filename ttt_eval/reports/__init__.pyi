from .page import write_report as write_report
from .pages import report_of as report_of
from .pages import write_page as write_page
from .runs import read_runs as read_runs
from .runs import write_run_page as write_run_page
