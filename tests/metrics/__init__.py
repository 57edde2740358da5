"""What is measured, and the ways it leaves the process."""
