"""Messages about runs, shared by the command line, the report and the review page."""
