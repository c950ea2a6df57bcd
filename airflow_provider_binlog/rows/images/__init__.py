"""Row images: which columns they hold, where each value lies, which updates change the key."""
