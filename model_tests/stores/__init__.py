"""Tables on a real S3-compatible server."""
