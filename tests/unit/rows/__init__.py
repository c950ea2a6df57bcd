"""Row images to Arrow."""
