package dibs
