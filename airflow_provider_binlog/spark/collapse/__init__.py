"""Many changes of a key become one action: whole row images and partial ones."""
