"""What deletes files of tables that live on: expired snapshots' files, and orphans."""
