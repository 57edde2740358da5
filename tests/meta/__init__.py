"""What must be true of the project as a whole: nothing it has goes without a test and documentation."""
