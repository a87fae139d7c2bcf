"""`python -m epicrec`: the command line."""

from epicrec.cli import main

if __name__ == "__main__":
    main()
