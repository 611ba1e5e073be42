"""Parts, for editors; docs/make_stubs.py writes this file."""

from components.worlds.form.task import Form as Form
