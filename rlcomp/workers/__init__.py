"""Worker processes that call functions under limits: against mistakes, not against malice."""
