"""What knows nothing of the domain: SQL, locks, encryption, requests to the outside, and charts."""
