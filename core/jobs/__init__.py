"""Work in the background that outlives a crash: one row for each job, one transaction a step."""
