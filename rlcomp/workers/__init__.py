"""Worker processes that call functions under limits: for mistakes, not for malice."""
