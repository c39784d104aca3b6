"""How the admin's pages write times: sortable at a glance, and in UTC like the days of scores."""

DATETIME_FORMAT = "Y-m-d H:i:s"
DATE_FORMAT = "Y-m-d"
