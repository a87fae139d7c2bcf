"""What is kept: tables, queries, migrations, backups."""
