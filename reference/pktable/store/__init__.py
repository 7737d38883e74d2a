"""Where bytes lie: listing, reading, putting a file if it is absent."""
