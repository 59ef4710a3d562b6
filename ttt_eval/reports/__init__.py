"""Every page and figure: ``report.html`` of runs, comparisons, tests, tournaments, ladders and sweeps."""
