"""Beyond the paper: ISRU in LSTM and GRU."""
