"""LSTM and GRU with ISRU gates or exact ones, and how a run trains one."""
