"""What running a server needs: logs, metrics, certificates, permissions of files."""
