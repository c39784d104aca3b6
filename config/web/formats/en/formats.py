"""How the admin's pages write times: sortable at a glance, with the zone of the login."""

DATETIME_FORMAT = "Y-m-d H:i:s T"
DATE_FORMAT = "Y-m-d"
