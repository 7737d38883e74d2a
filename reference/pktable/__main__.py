"""The command line as a module: ``python -m pktable``."""

from pktable.cli import main

if __name__ == "__main__":
    main()
