"""Row images: which columns they hold, where each value lies, which of them change the key."""
