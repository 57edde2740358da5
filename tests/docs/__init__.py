"""Documentation that is held to the truth: commands run, manifests apply, links lead somewhere."""
