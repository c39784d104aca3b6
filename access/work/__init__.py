"""Work on accounts: owners, tags, notes, and what people did about alarms."""
