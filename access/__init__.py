"""Who may do what: logins, roles, invites, sessions, the trail, and the base of all pages."""
