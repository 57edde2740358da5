"""What is shipped to run it: rendered by the real tools, judged by schemas and by an API server."""
