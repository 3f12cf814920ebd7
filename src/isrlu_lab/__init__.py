"""The laboratory: everything that measures, trains, reproduces and reports. The library `isrlu` never imports it."""
