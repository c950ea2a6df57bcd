"""The job that spark-submit runs: arguments, session, report."""
