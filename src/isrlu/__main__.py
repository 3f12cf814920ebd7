"""`python -m isrlu`, and with it `torchrun ... -m isrlu train`."""

from isrlu_lab.cli import main

if __name__ == "__main__":
    main()
