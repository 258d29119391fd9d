"""The tables of the docs: one command each, `python -m benchmark.NAME`.

Every measurement runs in a process of its own with one thread; every table states the machine,
its load and the command. Results go to out/bench/ as JSON, Markdown and pictures.
"""
