"""Tables and views as a whole: create, register, rename, drop; and all commits to views."""
