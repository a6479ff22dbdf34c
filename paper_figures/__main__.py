"""`python -m paper_figures [NAME...]`."""

from paper_figures.command import main

if __name__ == "__main__":
    main()
