"""The scores of accounts on past days, under any definition, from the daily counts."""
