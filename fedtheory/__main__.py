"""`python -m fedtheory`."""

from fedtheory.cli import main

if __name__ == "__main__":
    main()
