"""Where the bytes come from: a live server, files, and what a server answers to questions."""
