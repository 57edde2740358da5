"""``manage.py doctor``: what is wrong with this installation, and what to do about each finding."""
