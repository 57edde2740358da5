"""What one version leaves in Redis, and what another makes of it."""
