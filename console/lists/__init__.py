"""The lists of users and accounts: their addresses, filters, rows, columns, and saved views."""
