"""How the admin writes times: as logs do, with their zone."""
