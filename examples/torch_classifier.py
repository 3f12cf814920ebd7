"""A small digit classifier in PyTorch with ISRLU and one learned alpha per channel.

    python examples/torch_classifier.py        # about 5 s on 2 cores; test accuracy about 0.98

Needs: pip install -c constraints.txt '.[torch]' scikit-learn
"""

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn

from isrlu.torch import ISRLU

EPOCHS, BATCH = 15, 64


def main() -> float:
    torch.manual_seed(0)
    images, labels = load_digits(return_X_y=True)
    x = torch.tensor(images, dtype=torch.float32).reshape(-1, 1, 8, 8) / 16
    x_train, x_test, y_train, y_test = train_test_split(x, torch.tensor(labels), test_size=0.2, random_state=0)

    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, padding=1),
        ISRLU(learnable=True, num_parameters=16),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * 4 * 4, 64),
        ISRLU(alpha=3.0),
        nn.Linear(64, 10),
    )
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(x_train)).split(BATCH):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x_train[rows]), y_train[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        accuracy = (model(x_test).argmax(1) == y_test).float().mean().item()
    print(f"learned alphas: {model[1].alpha.min():.2f} to {model[1].alpha.max():.2f}")
    print(f"test accuracy: {accuracy:.3f}")
    return accuracy


if __name__ == "__main__":
    main()
