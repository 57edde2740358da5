"""What operators see: the admin's overview, its pages about targets, commits and branches, its actions."""
