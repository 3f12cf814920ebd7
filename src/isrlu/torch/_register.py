"""`register`: make the activations available by name in transformers' configurations."""


def register() -> None:
    """Add "isrlu", "isru" and "sisrlu" to transformers' ACT2FN, so that a configuration can use hidden_act="isrlu".

    Raises ImportError if transformers is not installed.
    """
    try:
        from transformers.activations import ACT2FN
    except ImportError as error:
        raise ImportError("isrlu.torch.register() needs transformers: pip install transformers") from error
    from isrlu.torch._modules import ISRLU, ISRU, SISRLU

    ACT2FN["isrlu"] = ISRLU
    ACT2FN["isru"] = ISRU
    ACT2FN["sisrlu"] = SISRLU
