"""The review page: a local web page on which people label what a run left, and more.

command.py    ``surelabel review``
serve.py      the server: address, token, start and end
app.py        what each address of the page answers; no decisions
security.py   who may ask: token, cookie, Host, Origin, response headers
desk.py       what is asked of people, and all that is known of each image
order.py      in which order; alike.py finds look-alikes; reasons.py puts measures in words
answering.py  takes answers, finds conflicts, takes answers back
pictures.py   images by item id, never by path
training.py   the next rounds in a process of their own (worker.py); events.py tells the pages
blind.py      lists of images to judge without seeing the run's label
static/ templates/   the page itself: plain modules, no build step
"""
