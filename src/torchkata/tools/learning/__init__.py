"""Learning alone: the workbook, JupyterLab on it, verdicts and progress."""
