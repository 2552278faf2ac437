"""The review page: a local web page on which people label what a run left."""
